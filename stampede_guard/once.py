"""Something that happens once, and any number of callers wait for.

Leaving costs the same however many wait. A future that all of them share would be searched through by each that leaves:
nine thousand cancelled callers would block the event loop for seconds.
"""

from __future__ import annotations

import asyncio

__all__ = ["Once"]


class Once:
    """Of one event loop. Each caller waits on a future of its own, and leaves when it is done waiting."""

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
        """Done when it happens. To be left again."""
        future = self._loop.create_future()
        if self.happened:
            future.set_result(None)
        else:
            self._waiting[future] = None
        return future

    def leave(self, future: asyncio.Future[None]) -> None:
        self._waiting.pop(future, None)

    async def wait(self, timeout: float) -> None:
        """At most so many seconds."""
        mine = self.join()
        try:
            await asyncio.wait({mine}, timeout=timeout)
        finally:
            self.leave(mine)
