"""An event that happens once and that any number of callers wait for.

Leaving costs the same, however many wait. With one shared future, each caller that leaves would search through the list
of all waiters. Nine thousand cancelled callers would block the event loop for seconds.
"""

from __future__ import annotations

import asyncio

__all__ = ["Once"]


class Once:
    """Belongs to one event loop. Each caller waits on its own future and leaves when it stops waiting."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.happened = False
        self._loop = loop
        self._waiting: dict[asyncio.Future[None], None] = {}

    def __len__(self) -> int:
        return len(self._waiting)

    def happen(self) -> None:
        self.happened = True
        waiting, self._waiting = self._waiting, {}
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def join(self) -> asyncio.Future[None]:
        """A future that is done when the event happens. The caller must `leave` it."""
        future = self._loop.create_future()
        if self.happened:
            future.set_result(None)
        else:
            self._waiting[future] = None
        return future

    def leave(self, future: asyncio.Future[None]) -> None:
        self._waiting.pop(future, None)

    async def wait(self, timeout: float) -> None:
        """Wait at most `timeout` seconds."""
        mine = self.join()
        try:
            await asyncio.wait({mine}, timeout=timeout)
        finally:
            self.leave(mine)
