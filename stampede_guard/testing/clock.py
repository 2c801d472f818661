"""A clock that moves only on demand."""

from __future__ import annotations

import asyncio
import contextlib

from stampede_guard.durations import Duration
from stampede_guard.options import ALL, takes_options
from stampede_guard.testing import given

__all__ = ["FakeClock"]


class FakeClock:
    """For `MemoryStore(clock=...)` and `FaultyStore(clock=...)`: entries expire when you advance it. Seconds.

    A call returns the time, like `time.monotonic`. Leases are entries of the store, too. If you advance the clock
    during a computation, the computation's lease may lapse.
    """

    @takes_options("FakeClock", own=ALL)
    def __init__(self, now: float = 1_000.0) -> None:
        self.now = now
        self._sleepers: list[tuple[float, asyncio.Future[None]]] = []

    def __call__(self) -> float:
        return self.now

    @takes_options("clock.advance", own=ALL)
    def advance(self, seconds: Duration) -> None:
        """Let time pass. Raises `Misuse` for a negative number, because a clock of leases never goes back."""
        self.now += given.seconds("advance({})", seconds, meaning="the time that passes")
        due = [future for until, future in self._sleepers if until <= self.now]
        self._sleepers = [(until, future) for until, future in self._sleepers if until > self.now]
        for future in due:
            with contextlib.suppress(RuntimeError):  # its event loop is closed
                future.get_loop().call_soon_threadsafe(_wake, future)

    @takes_options("clock.sleep", own=ALL)
    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has advanced this far; for `FaultyStore(wait=clock.sleep)` and code that takes a
        `sleep`.
        """
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        sleeper = (self.now + seconds, future)
        self._sleepers.append(sleeper)
        try:
            await future
        finally:
            if sleeper in self._sleepers:
                self._sleepers.remove(sleeper)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
