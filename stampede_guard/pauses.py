"""Pauses: entries that this process leaves alone for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Pauses"]


class Pauses:
    """Names end by themselves, so nothing grows with the number of keys. `now`: another clock than the loop's."""

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float] | None = None) -> None:
        self._loop = loop
        self._now = loop.time if now is None else now
        self._ends: dict[str, float] = {}

    def __contains__(self, name: str) -> bool:
        ends = self._ends.get(name)
        return ends is not None and self._now() < ends

    def __len__(self) -> int:
        return len(self._ends)

    def begin(self, name: str, seconds: float) -> None:
        """One that is under way is not prolonged."""
        if seconds > 0 and name not in self:
            self._ends[name] = ends = self._now() + seconds
            self._loop.call_later(seconds, self._end, name, ends)

    def _end(self, name: str, ends: float) -> None:
        if self._ends.get(name) == ends:
            del self._ends[name]
