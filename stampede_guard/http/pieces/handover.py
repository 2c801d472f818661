"""Pieces that the store did not keep, from the writer to the client whose request called the application.

While the store is full or away, other readers learn that a piece is gone. The client whose call it is gets its
response nevertheless, as without a cache: then the application waits for it.
"""

from __future__ import annotations

import asyncio

from stampede_guard.http.pieces.piece import PieceUnread

__all__ = ["Handover"]


class Handover:
    """`needed`: the number of the first piece that its client has yet to read; None when it reads no more."""

    def __init__(self) -> None:
        self.needed: int | None = 0
        self._held: dict[int, bytes] = {}
        self._changed = asyncio.Event()
        self._made = 0
        self._news = asyncio.Event()
        self._over = False

    def hold(self, number: int, piece: bytes) -> None:
        """Before anybody can learn that it is gone."""
        if self.needed is not None:
            self._held[number] = piece
        self._made = number + 1
        self._news.set()

    def end(self) -> None:
        """No further piece comes."""
        self._over = True
        self._news.set()

    def drop(self, number: int) -> None:
        self._held.pop(number, None)

    async def taken(self, number: int) -> None:
        """Waits until its client has read this piece, or reads no more."""
        while self.needed is not None and self.needed <= number:
            self._changed.clear()
            await self._changed.wait()
        self.drop(number)

    async def take(self, number: int, *, within: float) -> bytes | None:
        """Waits until this piece is made. None: it is stored, or nobody makes it. Raises `PieceUnread` if the
        application makes none `within` so many seconds.
        """
        if self.needed is not None:
            self.needed = number
            self._changed.set()
        try:
            while self._made <= number and not self._over:
                self._news.clear()
                async with asyncio.timeout(within):
                    await self._news.wait()
        except TimeoutError:
            raise PieceUnread(f"the application made no piece within {within:g} seconds") from None
        return self._held.get(number)

    def leave(self) -> None:
        """The application does not wait for this client any more."""
        self.needed = None
        self._held.clear()
        self._changed.set()
