"""What a response that may not be stored means for its waiters.

1. A visitor with a cookie is first at an expiry; a thousand without one wait. 2. The visitor's response may not be
   stored. 3. If all were released, all of them would call the application. So one more asks for the others first: a
   waiter that is not like the refused ones, an ordinary visitor if there is one. Waiters like a refused one are
   released. When two ordinary visitors that are not alike were refused, all are released.

A call that breaks off says nothing about anybody: one more waiter asks, like the one whose call it was or not. After a
second one in the same flight, waiters like these two are released, because the application seems to fail for them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import StampedeError
from stampede_guard.http.uncacheable.marks import ENOUGH

if TYPE_CHECKING:
    from stampede_guard.http.fetch import Fetch

__all__ = [
    "ABOUT_THE_CLIENT",
    "ABOUT_THE_QUESTION",
    "ELSEWHERE",
    "FAILED_SECONDS",
    "OF_ONE_CLIENT",
    "OriginFailed",
    "Refusals",
    "fail",
]

FAILED_SECONDS = 1.0
"""A failing application is asked again after so long, as by the engine."""

ABOUT_THE_CLIENT = frozenset({"authorization", "credentials"})
"""Refused because of the requester: another requester's response may be storable."""
ABOUT_THE_QUESTION = frozenset({206, 304, 412, 416, 417})
"""Or because of the form of the request."""
ELSEWHERE = "no-vary-search"
OF_ONE_CLIENT = ("authorization", "credentials", "private", "set-cookie", "no-store", "status", ELSEWHERE)
"""It says nothing about what others are served."""

BROKEN = frozenset({"no answer", "broken off"})
"""The application raised, or its response had no end."""


class OriginFailed(StampedeError):
    """The application failed, and a stale response may be served instead (RFC 5861, 4)."""


async def fail() -> Any:
    """For a request that is not asked for now, because it would fail like those before it."""
    raise OriginFailed("it has just failed for requests like this one")


class Refusals:
    """The refusals of one flight. `ordinary` counts visitors without distinguishing fields. `released`: identities
    whose waiters are released without evidence.
    """

    def __init__(self, *released: bytes) -> None:
        self.ordinary = 0
        self.identities = set(released)
        self.are_sure = False
        self._by_name = False
        self._broken = 0

    def add(self, fetch: Fetch) -> None:
        if fetch.refusal in BROKEN:
            self._broken += 1
            if self._broken < ENOUGH:
                return
        if fetch.is_evidence:
            self._by_name = self._by_name or fetch.refusal in ABOUT_THE_CLIENT
            self.ordinary += fetch.requester.ordinary
            self.identities.add(fetch.requester.identity)
            self.are_sure = self.are_sure or fetch.is_sure

    @property
    def are_for_all(self) -> bool:
        """Whether every requester's response would be refused."""
        return self.ordinary >= ENOUGH

    def next_to_ask(self, waiting: Iterable[Fetch]) -> Fetch | None:
        """A waiter whose request others could have sent, too; None = all waiters are like the refused ones."""
        found = None
        for other in waiting:
            if not other.request.plain or other.gone or other.live.done() or other.begun:
                continue
            if other.requester.identity in self.identities:
                continue
            if other.requester.ordinary:
                return other
            found = found or other
        # Another one with a credential would be refused for the same reason, and two refusals are no longer one
        # requester's case.
        return None if self._by_name or len(self.identities) >= ENOUGH else found
