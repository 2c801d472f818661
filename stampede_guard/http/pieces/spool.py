"""A body of unknown length, on its way into the store and to the client whose request called the application.

Its full pieces are put into the store one by one. Nobody can name them before the end, so they need no leases. The
bytes after them are in memory. Its client reads along from there, or from the store what it has missed. So a slow
client holds back nobody.

After `cut_off`, nothing more is stored. The application then waits for that client, as without a cache.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable

__all__ = ["Spool"]


class Spool:
    """`put` stores the piece with this number, and returns whether the store keeps it. `look` reads it. `size`: bytes
    of each piece but the last one. `most`: bytes of the body that are stored.

    `outcome`: why the body is not stored; empty if all of it is. `length`: bytes so far. `tried`: pieces that may be in
    the store.
    """

    def __init__(
        self,
        put: Callable[[int, bytes], Awaitable[bool]],
        look: Callable[[int], Awaitable[bytes]],
        *,
        size: int,
        most: int,
    ) -> None:
        self.outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.length = 0
        self.tried = 0
        self._put, self._look, self._size, self._most = put, look, size, most
        self._memory = bytearray()
        self._begin = 0
        """The place in the body of the first byte in memory. Those before it are in the store, or with the client."""
        self._needed: int | None = 0
        self._is_over = False
        self._error: BaseException | None = None
        self._changed = asyncio.Event()

    # --- the writer ----------------------------------------------------------------------------

    async def add(self, chunk: bytes) -> None:
        """Returns when the next chunk may come."""
        self._memory += chunk
        self.length += len(chunk)
        if self.length > self._most:
            self.cut_off("too large")
        self._tell()
        while len(self._memory) >= self._size and not self._is_cut_off:
            await self._store(self._size)
        while self._is_cut_off and self._needed is not None and self._needed < self.length:
            await self._change()
        if self._is_cut_off and self._needed is None:
            self._memory.clear()
            self._begin = self.length

    async def end(self) -> None:
        """The body is complete."""
        if self._memory and not self._is_cut_off:
            await self._store(len(self._memory))
        self.cut_off("")
        self._is_over = True
        self._tell()

    def fail(self, error: BaseException) -> None:
        """The body ends here. Its client gets the bytes before that, and then this error."""
        self._error = error
        self.cut_off("broken off")
        self._is_over = True
        self._tell()

    async def _store(self, count: int) -> None:
        piece, number = bytes(self._memory[:count]), self.tried
        self.tried += 1
        if not await self._put(number, piece):
            self.cut_off("store")
        if not self._is_cut_off:
            # Otherwise its client may have read some of these bytes meanwhile.
            del self._memory[:count]
            self._begin += count
            self._tell()

    # --- the flight ----------------------------------------------------------------------------

    def cut_off(self, why: str) -> None:
        """Stores nothing more, unless that is decided already."""
        if not self.outcome.done():
            self.outcome.set_result(why)

    @property
    def _is_cut_off(self) -> bool:
        return self.outcome.done() and self.outcome.result() != ""

    # --- its client ----------------------------------------------------------------------------

    async def read(self, place: int) -> AsyncGenerator[bytes, None]:
        """The bytes from this place on, as they come. Raises the error of `fail`, and what `look` raises."""
        try:
            while True:
                self._come_to(place)
                if place < self._begin:
                    number, begin = divmod(place, self._size)
                    chunk = (await self._look(number))[begin:]
                elif place < self.length:
                    chunk = bytes(self._memory[place - self._begin :])
                elif self._is_over:
                    break
                else:
                    await self._change()
                    continue
                yield chunk
                place += len(chunk)
            if self._error is not None:
                raise self._error
        finally:
            self.leave()

    def leave(self) -> None:
        """The client reads no more."""
        self._needed = None
        self._tell()

    async def left(self) -> None:
        """Waits until the client reads no more."""
        while self._needed is not None:
            await self._change()

    def _come_to(self, place: int) -> None:
        if self._needed is None:
            return
        self._needed = place
        # It may be ahead: it read the first bytes before they came here.
        read = min(place, self.length) - self._begin
        if self._is_cut_off and read > 0:
            del self._memory[:read]
            self._begin += read
        self._tell()

    # -------------------------------------------------------------------------------------------

    def _tell(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def _change(self) -> None:
        await self._changed.wait()
