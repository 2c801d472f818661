"""Entries that could not be stored lately, as this process has seen: nobody waits for the next of their responses."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

__all__ = ["ENOUGH", "Marks"]

MOST = 4096
ENOUGH = 2
"""Refusals in a row. One may be a single error between good responses."""


class Marks:
    """`seconds`: how long one counts, by `clock`. The store remembers for all; this spares asking it each time."""

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._marks: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def note(self, name: str, *, count: int = 1) -> None:
        now = self._clock()
        known = self._marks.pop(name, (0, 0.0))
        so_far = known[0] if known[1] > now else 0
        self._marks[name] = (so_far + count, now + self._seconds)
        if len(self._marks) > MOST:
            self._marks.popitem(last=False)

    def passes(self, name: str) -> bool:
        count, until = self._marks.get(name, (0, 0.0))
        return count >= ENOUGH and until > self._clock()

    def drop(self, name: str) -> None:
        self._marks.pop(name, None)
