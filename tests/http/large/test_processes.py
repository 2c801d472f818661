"""Two uvicorn processes on one server: who waits in the second one reads the body while the first one makes it."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from typing import NamedTuple

from stampede_guard.http.pieces.piece import PIECE_BYTES
from tests.http.large.content import LARGE, is_whole, whole

REQUEST = b"GET %s HTTP/1.1\r\nhost: shop.example\r\nconnection: close\r\n\r\n"


class Two(NamedTuple):
    """`calls` has the stream of each call of the application, which the test writes."""

    sites: list[asyncio.subprocess.Process]
    ports: list[int]
    calls: asyncio.Queue[asyncio.StreamWriter]
    clients: list[asyncio.StreamWriter]

    async def ask(self, number: int, path: str) -> asyncio.StreamReader:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.ports[number], limit=1 << 24)
        # Without a reference, its connection would be closed.
        self.clients.append(writer)
        writer.write(REQUEST % path.encode())
        return reader


@contextlib.asynccontextmanager
async def two_sites(url: str, namespace: str) -> AsyncIterator[Two]:
    calls: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    source = await asyncio.start_server(lambda _, writer: calls.put_nowait(writer), "127.0.0.1", 0)
    told = [url, namespace, str(source.sockets[0].getsockname()[1])]
    sites = [
        await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.http.large.site", *told, stdout=asyncio.subprocess.PIPE
        )
        for _ in range(2)
    ]
    try:
        ports = [int(await site.stdout.readline()) for site in sites if site.stdout is not None]
        yield Two(sites, ports, calls, [])
    finally:
        source.close()
        for site in sites:
            with contextlib.suppress(ProcessLookupError):
                site.kill()
            await site.wait()


async def test_a_waiter_in_another_process_reads_before_the_last_byte_is_made_and_never_takes_a_part_for_the_whole(
    valkey_url: str, namespace: str
) -> None:
    # One pair of processes for both, because they take seconds to start.
    async with asyncio.timeout(280), two_sites(valkey_url, namespace) as two:
        await _read_along(two)
        await _end_with_the_writer(two)


async def _read_along(two: Two) -> None:
    own = await two.ask(0, "/read")
    call = await two.calls.get()
    other = await two.ask(1, "/read")
    call.write(whole()[:PIECE_BYTES])
    begun = []
    for reader in (own, other):
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        begun.append(await reader.readexactly(PIECE_BYTES))
    # Only now.
    call.write(whole()[PIECE_BYTES:])
    call.write_eof()
    for reader, first in zip((own, other), begun, strict=True):
        assert is_whole(first + await reader.read())
    again = await two.ask(1, "/read")
    assert b"; hit" in await again.readuntil(b"\r\n\r\n")
    assert is_whole(await again.read())
    assert two.calls.empty()


async def _end_with_the_writer(two: Two) -> None:
    await two.ask(0, "/killed")
    (await two.calls.get()).write(whole()[: 2 * PIECE_BYTES - 1])
    begun = await two.ask(1, "/killed")
    assert b"content-length: %d" % LARGE in await begun.readuntil(b"\r\n\r\n")
    first = await begun.readexactly(PIECE_BYTES)
    await two.ask(0, "/early")
    (await two.calls.get()).write(whole()[: PIECE_BYTES - 1])
    waiting = await two.ask(1, "/early")
    two.sites[0].kill()
    assert len(first + await begun.read()) < LARGE
    # It has sent nothing yet, so it takes over.
    await _served_anew(two, waiting)
    await _served_anew(two, await two.ask(1, "/killed"))


async def _served_anew(two: Two, reader: asyncio.StreamReader) -> None:
    call = await two.calls.get()
    call.write(whole(2))
    call.write_eof()
    assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
    assert is_whole(await reader.read(), 2)
