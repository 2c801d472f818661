"""Pauses: entries that this process leaves alone for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["Pauses"]


class Pauses:
    """Names end by themselves, so nothing grows with the number of keys. `now`: another clock than the loop's.

    A pause is about a value, by its token, and not about those that come after it. 1. The source fails, and is to be
    left alone for ten minutes. 2. It is mended; the entry is invalidated and computed. 3. When that value is stale, it
    is computed anew, also where the ten minutes are not over.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float] | None = None) -> None:
        self._loop = loop
        self._now = loop.time if now is None else now
        self._ends: dict[str, tuple[float, int]] = {}

    def hold(self, name: str, token: int = 0) -> bool:
        """Whether a value with this token is to be left as it is."""
        found = self._ends.get(name)
        return found is not None and token <= found[1] and self._now() < found[0]

    def __len__(self) -> int:
        return len(self._ends)

    def begin(self, name: str, seconds: float, *, token: int = 0) -> None:
        """One that is under way is not prolonged."""
        if seconds > 0 and not self.hold(name, token):
            self._ends[name] = pause = (self._now() + seconds, token)
            self._loop.call_later(seconds, self._end, name, pause)

    def _end(self, name: str, pause: tuple[float, int]) -> None:
        if self._ends.get(name) == pause:
            del self._ends[name]
