"""The proxy that misbehaves, for protocols it does not know: whole bytes through, and replies that get lost."""

from __future__ import annotations

import asyncio

from tests.support.proxy import FaultProxy, Link

__all__ = ["PlainProxy"]


class PlainProxy(FaultProxy):
    """`deaf()`: what clients send arrives and is carried out, and no answer comes back until `heal()`."""

    def __init__(self, target: int, *, host: str = "127.0.0.1") -> None:
        super().__init__(target, host=host)
        self.is_deaf = False
        self.forwarded = 0
        """Bytes from clients."""

    def deaf(self) -> None:
        self.is_deaf = True
        for link in self.links:
            link.losing = "lose"

    def heal(self) -> None:
        """Connections that lost an answer stay deaf; new ones are good."""
        super().heal()
        self.is_deaf = False

    async def _requests(self, link: Link, reader: asyncio.StreamReader) -> None:
        if self.is_deaf:
            link.losing = "lose"
        async for data in self._pieces(link, reader):
            self.forwarded += len(data)
            link.server.write(data)
            await link.server.drain()
        link.reset()
