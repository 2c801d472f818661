"""Entries that could not be stored lately, as this process has seen: nobody waits for the next of their responses."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["Marks"]

MOST = 4096
ENOUGH = 2
"""Refusals in a row. One may be a single error between good responses."""


class Marks:
    """`seconds`: how long one counts. The store remembers for all processes; this spares asking it each time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._marks: OrderedDict[str, tuple[int, float]] = OrderedDict()
        self.now = 0.0

    def note(self, name: str, *, count: int = 1) -> None:
        known = self._marks.pop(name, (0, 0.0))
        so_far = known[0] if known[1] > self.now else 0
        self._marks[name] = (so_far + count, self.now + self._seconds)
        if len(self._marks) > MOST:
            self._marks.popitem(last=False)

    def passes(self, name: str) -> bool:
        count, until = self._marks.get(name, (0, 0.0))
        return count >= ENOUGH and until > self.now

    def drop(self, name: str) -> None:
        self._marks.pop(name, None)
