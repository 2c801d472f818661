"""Pauses: entries that this process does not compute or refresh for a moment."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

__all__ = ["MOST", "Backoff"]

MOST = 10_000
"""The limit of names. Beyond it, the oldest name is dropped, and its pause ends too early."""
SWEEP_SECONDS = 0.25
"""The shortest time between two sweeps of ended pauses."""


class Backoff:
    """Pauses end by themselves, and at most `MOST` are kept. `now`: another clock than the loop's.

    A pause concerns one value, by its token, and not the values after it. 1. The source fails, and the process shall
    not ask it for ten minutes. 2. The source recovers. The entry is invalidated and computed. 3. When that value
    becomes stale, it is computed again, even within the ten minutes.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, now: Callable[[], float] | None = None) -> None:
        self._loop = loop
        self._now = loop.time if now is None else now
        self._ends: OrderedDict[str, tuple[float, int]] = OrderedDict()
        # Also by the event loop's clock, because another clock may stand still.
        self._due: dict[str, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def hold(self, name: str, token: int = 0) -> bool:
        """Whether a value with this token must not be refreshed now."""
        found = self._ends.get(name)
        return found is not None and token <= found[1] and self._now() < found[0]

    def __len__(self) -> int:
        return len(self._ends)

    def pause(self, name: str, seconds: float, *, token: int = 0) -> None:
        """Begin a pause. One that runs is not prolonged."""
        if seconds <= 0 or self.hold(name, token):
            return
        self._ends.pop(name, None)
        if len(self._ends) >= MOST:
            self._due.pop(self._ends.popitem(last=False)[0], None)
        self._ends[name] = (self._now() + seconds, token)
        self._due[name] = self._loop.time() + seconds
        if self._timer is None:
            self._timer = self._loop.call_later(max(seconds, SWEEP_SECONDS), self._sweep)

    def _sweep(self) -> None:
        """One timer serves all names. A timer per name would be kept for as long as the longest pause."""
        now, on_loop = self._now(), self._loop.time()
        for name, (end, _) in list(self._ends.items()):
            if end <= now or self._due[name] <= on_loop:
                del self._ends[name], self._due[name]
        self._timer = None
        if self._due:
            pause = max(min(self._due.values()) - on_loop, SWEEP_SECONDS)
            self._timer = self._loop.call_later(pause, self._sweep)
