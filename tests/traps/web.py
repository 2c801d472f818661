"""A cached application behind a real uvicorn, and clients that write their requests byte by byte."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any, NamedTuple

import uvicorn

from stampede_guard import StampedeGuard
from stampede_guard.http.middleware import StampedeMiddleware
from stampede_guard.stores.memory import MemoryStore
from tests.http.fleet import App
from tests.support.clock import Clock

__all__ = ["Reply", "Site", "serving"]


class Reply(NamedTuple):
    status: int
    fields: dict[str, str]
    body: bytes

    @property
    def told(self) -> str:
        """What the cache says of itself."""
        return self.fields.get("cache-status", "")

    @property
    def is_hit(self) -> bool:
        return "; hit" in self.told


class Site:
    def __init__(
        self, app: Any, port: int, guard: StampedeGuard, cache: StampedeMiddleware, clock: Clock
    ) -> None:
        self.app = app
        self.port = port
        self.guard = guard
        self.cache = cache
        self.clock = clock

    async def ask(self, path: str = "/", *, method: str = "GET", body: bytes = b"", **fields: str) -> Reply:
        """On a connection of its own. Underscores in the names of fields stand for dashes."""
        host = fields.pop("host", "shop.example")
        lines = [f"{method} {path} HTTP/1.1", f"host: {host}", "connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        if body:
            lines.append(f"content-length: {len(body)}")
        return await self.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)

    async def write(self, request: bytes) -> Reply:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port, limit=8 * 1024 * 1024)
        try:
            writer.write(request)
            async with asyncio.timeout(60):
                first, *rest = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                pairs = [line.partition(":") for line in rest if line]
                fields = {name.lower(): value.strip() for name, _, value in pairs}
                body = await reader.read()
                if fields.get("transfer-encoding") == "chunked":
                    body = _joined(body)
                return Reply(int(first.split()[1]), fields, body)
        finally:
            writer.close()

    async def settled(self) -> None:
        while flights := list(self.guard.engine.runtime().flights.values()):
            await asyncio.wait([flight.landed for flight in flights])

    async def ask_all(self, requests: list[dict[str, str]], path: str = "/") -> list[str]:
        """One after the other on one connection. What the cache says of each."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        told = []
        try:
            for fields in requests:
                lines = [f"GET {path} HTTP/1.1", "host: shop.example"]
                lines += [f"{name}: {value}" for name, value in fields.items()]
                writer.write("\r\n".join([*lines, "", ""]).encode("latin-1"))
                async with asyncio.timeout(60):
                    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
                    await self._rest(reader, head)
                told += [line for line in head.split("\r\n") if line.startswith("cache-status:")]
        finally:
            writer.close()
        return told

    async def _rest(self, reader: asyncio.StreamReader, head: str) -> None:
        if "content-length:" in head:
            await reader.readexactly(int(head.partition("content-length:")[2].partition("\r\n")[0]))
        else:
            await reader.readuntil(b"0\r\n\r\n")


def _joined(body: bytes) -> bytes:
    """RFC 9112, 7.1."""
    found = b""
    while body:
        size, _, rest = body.partition(b"\r\n")
        found += rest[: int(size, 16)]
        body = rest[int(size, 16) + 2 :]
    return found


@contextlib.asynccontextmanager
async def serving(app: App | Any, *, outside: Any = None, **options: Any) -> AsyncIterator[Site]:
    """`outside` wraps the cache, as a middleware that is added later does."""
    clock = Clock(1_700_000_000.0)
    guard = StampedeGuard(MemoryStore(clock=clock), namespace="web")
    cache = StampedeMiddleware(app, guard=guard, clock=clock, **options)
    whole = outside(cache) if outside is not None else cache
    config = uvicorn.Config(
        whole,
        port=0,
        log_level="critical",
        lifespan="off",
        date_header=False,
        h11_max_incomplete_event_size=1 << 20,
    )
    server = uvicorn.Server(config)
    task = asyncio.ensure_future(server.serve())
    try:
        async with asyncio.timeout(60):
            while not server.started:
                assert not task.done()
                await asyncio.sleep(0.01)
        yield Site(app, server.servers[0].sockets[0].getsockname()[1], guard, cache, clock)
    finally:
        server.should_exit = True
        await task
        await guard.aclose()
