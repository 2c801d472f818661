"""What follows from a response that may not be stored, for those who wait for it.

1. A visitor with a cookie is first at an expiry; a thousand without wait. 2. The visitor's response may not be stored.
3. Let through, all of them would ask the application. So the next one asks for the others first: one that is not like
those who were refused, an ordinary visitor if there is one. Who is like a refused one is let through; and when two
ordinary ones were refused that are not alike, everybody is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from stampede_guard.http.marks import ENOUGH

if TYPE_CHECKING:
    from stampede_guard.http.fetch import Fetch

__all__ = ["ABOUT_THE_CLIENT", "ABOUT_THE_QUESTION", "Refusals"]

ABOUT_THE_CLIENT = frozenset({"authorization", "credentials"})
"""Refused because of who asked: another's answer may well be stored."""
ABOUT_THE_QUESTION = frozenset({206, 304, 412, 416, 417})
"""Or because of how it asked."""


class Refusals:
    """Those of one flight. `ordinary` counts visitors that nothing sets apart."""

    def __init__(self) -> None:
        self.ordinary = 0
        self.identities: set[bytes] = set()
        self.are_sure = False
        self._by_name = False

    def add(self, fetch: Fetch) -> None:
        if fetch.is_evidence:
            self._by_name = self._by_name or fetch.refusal in ABOUT_THE_CLIENT
            self.ordinary += fetch.requester.ordinary
            self.identities.add(fetch.requester.identity)
            self.are_sure = self.are_sure or fetch.is_sure

    @property
    def are_for_all(self) -> bool:
        """Whether everybody's response would be refused."""
        return self.ordinary >= ENOUGH

    def next_to_ask(self, waiting: Iterable[Fetch]) -> Fetch | None:
        """One that waits and has a question that others have, too; None = those who wait are like the refused."""
        found = None
        for other in waiting:
            if not other.request.plain or other.gone or other.live.done() or other.begun:
                continue
            if other.requester.identity in self.identities:
                continue
            if other.requester.ordinary:
                return other
            found = found or other
        # Another with a credential would be refused for the same reason, and what two were is no one's own affair.
        return None if self._by_name or len(self.identities) >= ENOUGH else found
