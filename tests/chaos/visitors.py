"""HTTP clients that notice everything: a status that is no 200, an answer that is torn, a connection that was closed.

A server that ends closes connections on which no request has arrived yet. A request that is sent in that moment is
answered by nobody, and HTTP lets its sender try again (RFC 9110, 9.2.2; reverse proxies do): that is counted, and is no
fault. An answer of which a part has come must be whole.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from typing import Any

__all__ = ["Torn", "Visitor", "Visitors"]

PATIENCE = 120.0
"""Seconds for an answer, and until somebody listens again."""


class Torn(Exception):
    """An answer that ended before its end."""


class Visitor:
    """One client. `persistent`: its connection is kept for the next request, as those of a reverse proxy are."""

    def __init__(self, port: int, *, persistent: bool) -> None:
        self._port = port
        self._persistent = persistent
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.tried_again = 0

    async def get(self, path: str) -> tuple[int, Any]:
        """Status and body. Raises `Torn`, and `TimeoutError` when no answer comes."""
        async with asyncio.timeout(PATIENCE):
            while (answer := await self._try(path)) is None:
                self.tried_again += 1
                # Nobody may be listening for the moment in which one process replaces another.
                await asyncio.sleep(0.01)
        return answer

    async def _try(self, path: str) -> tuple[int, Any] | None:
        received = b""
        try:
            reader, writer = self._streams or await asyncio.open_connection("127.0.0.1", self._port)
            self._streams = reader, writer
            close = "" if self._persistent else "Connection: close\r\n"
            writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n{close}\r\n".encode())
            received = await reader.read(1)
            if received:
                received += await reader.readuntil(b"\r\n\r\n")
                head = received.decode("latin-1").lower()
                length = int(head.partition("content-length:")[2].partition("\r\n")[0])
                body = await reader.readexactly(length)
                if not self._persistent or "connection: close" in head:
                    await self.leave()
                return int(head.split()[1]), json.loads(body)
        except (OSError, asyncio.IncompleteReadError) as error:
            if received:
                raise Torn(f"{path}: {received!r}") from error
        await self.leave()
        return None

    async def leave(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            with contextlib.suppress(OSError):
                await self._streams[1].wait_closed()
            self._streams = None


class Visitors:
    """Many of them, who go on asking for `paths` until they are told to stop. Half of them keep their connections."""

    def __init__(self, port: int, paths: list[str], *, count: int) -> None:
        self.statuses: Counter[int] = Counter()
        self.tried_again = 0
        self._stopped = False
        self._tasks = [
            asyncio.create_task(self._stay(Visitor(port, persistent=number % 2 == 0), paths, number))
            for number in range(count)
        ]

    async def _stay(self, visitor: Visitor, paths: list[str], number: int) -> None:
        try:
            while not self._stopped:
                number += 1
                status, _ = await visitor.get(paths[number % len(paths)])
                self.statuses[status] += 1
                await asyncio.sleep(0.02)
        finally:
            self.tried_again += visitor.tried_again
            await visitor.leave()

    async def stop(self) -> None:
        """Raises what one of them has met."""
        self._stopped = True
        await asyncio.gather(*self._tasks)
