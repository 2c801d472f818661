"""Entries that could not be stored lately, as this process has seen: nobody waits for the next of their responses.

A response may be refused because of who asked. So what one requester is refused, by which others can be told apart
(a cookie, a field of its own), counts for requesters of that kind only; and twice the same requester counts once.
Ordinary visitors, who have nothing of their own, are each another one.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from stampede_guard.http.requester import Requester

__all__ = ["ENOUGH", "Marks"]

MOST = 4096
ENOUGH = 2
"""Requesters that were refused. What one is refused may be about that one."""


class _Mark(NamedTuple):
    refused: int = 0
    until: float = 0.0
    identities: frozenset[bytes] = frozenset()


class Marks:
    """`seconds`: how long one counts, by `clock`. The store remembers for all; this spares asking it each time."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._marks: OrderedDict[str, _Mark] = OrderedDict()

    def note(self, name: str, *, count: int = 1) -> None:
        """A response to an ordinary visitor was refused."""
        known = self._known(name)
        self._keep(name, known._replace(refused=known.refused + count))

    def note_requester(self, name: str, identity: bytes) -> None:
        """One to a requester that can be told apart was refused."""
        known = self._known(name)
        if len(known.identities) < ENOUGH or identity in known.identities:
            self._keep(name, known._replace(identities=known.identities | {identity}))

    def passes(self, name: str, requester: Callable[[], Requester] | None = None) -> bool:
        """Whether a request need not wait: ordinary visitors were refused, or others like it."""
        if name not in self._marks:
            return False
        known = self._known(name)
        if known.refused >= ENOUGH:
            return True
        if not known.identities or requester is None or (own := requester()).ordinary:
            return False
        return own.identity in known.identities or len(known.identities) >= ENOUGH

    def drop(self, name: str) -> None:
        self._marks.pop(name, None)

    def _known(self, name: str) -> _Mark:
        known = self._marks.get(name)
        return known if known is not None and known.until > self._clock() else _Mark()

    def _keep(self, name: str, mark: _Mark) -> None:
        self._marks.pop(name, None)
        self._marks[name] = mark._replace(until=self._clock() + self._seconds)
        if len(self._marks) > MOST:
            self._marks.popitem(last=False)
