"""Entries whose responses this process could not store lately: requests do not wait for their next response.

The requester may be the reason why a response is refused. So the refusal of a requester that differs from others (by a
cookie, or a field of its own) counts for requesters of that kind only. Two refusals of the same requester count for
requesters like it only. Two different ordinary visitors have to be refused before no request waits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from stampede_guard.http.requests.requester import Requester

__all__ = ["ENOUGH", "Marks"]

MOST = 4096
ENOUGH = 2
"""Refused requesters. One refusal may concern that requester only."""


class _RefusalMark(NamedTuple):
    """`refused` counts responses to ordinary visitors, and `ordinary` has those that were refused. `identities` are
    those of the others."""

    refused: int = 0
    until: float = 0.0
    ordinary: frozenset[bytes] = frozenset()
    identities: frozenset[bytes] = frozenset()
    for_all: bool = False


class Marks:
    """`seconds`: how long one counts, by `clock`. The store remembers for all processes; this saves asking it each
    time.
    """

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._marks: OrderedDict[str, _RefusalMark] = OrderedDict()

    def note(self, name: str, requester: Requester, *, count: int = 1) -> None:
        """A response to this requester was refused, or another could not use it. `count`: for how many it counts."""
        known, identity = self._known(name), frozenset({requester.identity})
        if requester.ordinary:
            ordinary = known.ordinary if len(known.ordinary) >= ENOUGH else known.ordinary | identity
            self._keep(name, known._replace(refused=known.refused + count, ordinary=ordinary))
        elif len(known.identities) < ENOUGH or requester.identity in known.identities:
            self._keep(name, known._replace(identities=known.identities | identity))

    def note_all(self, name: str) -> None:
        """The responses to all requesters would be refused."""
        self._keep(name, self._known(name)._replace(for_all=True))

    def passes(self, name: str, requester: Callable[[], Requester] | None = None) -> bool:
        """Whether a request need not wait: two ordinary visitors were refused, or others like it."""
        if name not in self._marks:
            return False
        known = self._known(name)
        if known.for_all or len(known.ordinary) >= ENOUGH:
            return True
        if requester is None:
            return False
        own = requester()
        if own.ordinary:
            return known.refused >= ENOUGH and own.identity in known.ordinary
        return own.identity in known.identities or len(known.identities) >= ENOUGH

    def drop(self, name: str) -> None:
        self._marks.pop(name, None)

    def _known(self, name: str) -> _RefusalMark:
        known = self._marks.get(name)
        return known if known is not None and known.until > self._clock() else _RefusalMark()

    def _keep(self, name: str, mark: _RefusalMark) -> None:
        self._marks.pop(name, None)
        self._marks[name] = mark._replace(until=self._clock() + self._seconds)
        if len(self._marks) > MOST:
            self._marks.popitem(last=False)
