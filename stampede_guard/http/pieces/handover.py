"""Pieces that the store did not keep, from the writer to the client whose request called the application.

While the store is full or away, other readers learn that a piece is gone. The client whose call it is gets its
response nevertheless, as without a cache: then the application waits for it.
"""

from __future__ import annotations

import asyncio

__all__ = ["Handover"]


class Handover:
    """`needed`: the number of the first piece that its client has yet to read; None when it reads no more."""

    def __init__(self) -> None:
        self.needed: int | None = 0
        self._held: dict[int, bytes] = {}
        self._changed = asyncio.Event()

    def hold(self, number: int, piece: bytes) -> None:
        """Before anybody can learn that it is gone."""
        if self.needed is not None:
            self._held[number] = piece

    def drop(self, number: int) -> None:
        self._held.pop(number, None)

    async def taken(self, number: int) -> None:
        """Waits until its client has read this piece, or reads no more."""
        while self.needed is not None and self.needed <= number:
            self._changed.clear()
            await self._changed.wait()
        self.drop(number)

    def find(self, number: int) -> bytes | None:
        return self._held.get(number)

    def read_up_to(self, needed: int) -> None:
        if self.needed is not None:
            self.needed = needed
            self._changed.set()

    def leave(self) -> None:
        """The application does not wait for this client any more."""
        self.needed = None
        self._held.clear()
        self._changed.set()
