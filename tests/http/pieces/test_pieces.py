"""Pieces of a large body, written in one process and read in others while they are written."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stampede_guard import StampedeGuard
from stampede_guard.engine.plan import Plan
from stampede_guard.http.pieces.layout import PieceLayout
from stampede_guard.http.pieces.piece import PieceGone, plan_of_pieces
from stampede_guard.http.pieces.reading import read_pieces
from stampede_guard.http.pieces.writing import PieceWriter
from stampede_guard.http.spec.ranges import ByteSpan
from stampede_guard.stores.memory import MemoryStore
from tests.support.sessions import patient

BODY = bytes(range(256)) * 2
WHOLE = ByteSpan(0, len(BODY) - 1)
LAYOUT = PieceLayout("n1", 100, len(BODY))


def plan_of(guard: StampedeGuard) -> Plan:
    return plan_of_pieces(guard.policy, ttl=60, size=100)


def writer_of(guard: StampedeGuard, layout: PieceLayout = LAYOUT) -> PieceWriter:
    return PieceWriter(guard.engine, plan_of(guard), layout)


def reader_of(
    guard: StampedeGuard, layout: PieceLayout = LAYOUT, wanted: ByteSpan = WHOLE
) -> AsyncIterator[bytes]:
    return read_pieces(guard.engine, plan_of(guard), layout, wanted)


class Source:
    """A body that comes when it is allowed to."""

    def __init__(self) -> None:
        self.more: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (chunk := await self.more.get()) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            yield chunk


def guards(count: int, on: Any = None, namespace: str = "web") -> list[StampedeGuard]:
    if isinstance(on, str):
        return [StampedeGuard.from_url(on, namespace=namespace) for _ in range(count)]
    store = MemoryStore()
    return [StampedeGuard(store, namespace=namespace) for _ in range(count)]


@given(st.integers(1, 50), st.integers(1, 200), st.data())
def test_cuts_are_the_wanted_bytes_and_no_others(size: int, length: int, data: st.DataObject) -> None:
    layout, body = PieceLayout("n", size, length), bytes(n % 256 for n in range(length))
    pieces = [body[n * size : n * size + layout.bytes_in(n)] for n in range(layout.total)]
    assert b"".join(pieces) == body
    first = data.draw(st.integers(0, length - 1))
    last = data.draw(st.integers(first, length - 1))
    found = [pieces[number][begin:end] for number, begin, end in layout.cuts(ByteSpan(first, last))]
    assert b"".join(found) == body[first : last + 1] and all(found)


@pytest.mark.parametrize("server", [False, True])
async def test_a_reader_in_another_process_gets_each_piece_before_the_next_one_is_made(
    server: bool, valkey_url: str, namespace: str
) -> None:
    one, two = guards(2, valkey_url if server else None, namespace)
    async with one, two:
        writer, source = writer_of(one), Source()
        assert await writer.ready()
        writing = asyncio.ensure_future(writer.write(aiter(source)))
        readers = [reader_of(guard) for guard in (one, one, two, two)]
        for begin in range(0, len(BODY), 100):
            source.more.put_nowait(BODY[begin : begin + 100])
            assert {await anext(reader) for reader in readers} == {BODY[begin : begin + 100]}
        source.more.put_nowait(None)
        await writing
        later = [piece async for piece in reader_of(two, wanted=ByteSpan(150, 420))]
        assert b"".join(later) == BODY[150:421]


async def test_a_slow_reader_holds_back_nobody() -> None:
    one, two = guards(2)
    async with one, two:
        writer, source = writer_of(one), Source()
        assert await writer.ready()
        source.more.put_nowait(BODY)
        source.more.put_nowait(None)
        slow = reader_of(two)
        writing = asyncio.ensure_future(writer.write(aiter(source)))
        assert await anext(slow) == BODY[:100]
        await writing
        assert b"".join([piece async for piece in reader_of(one)]) == BODY
        assert b"".join([piece async for piece in slow]) == BODY[100:]


@pytest.mark.parametrize("end", [RuntimeError("broke"), None])
async def test_a_body_that_breaks_off_fails_for_all_readers(end: Exception | None) -> None:
    one, two = guards(2)
    async with one, two:
        writer, source = writer_of(one), Source()
        assert await writer.ready()
        writing = asyncio.ensure_future(writer.write(aiter(source)))
        source.more.put_nowait(BODY[:150])
        readers = [reader_of(one), reader_of(two)]
        for reader in readers:
            assert await anext(reader) == BODY[:100]
        waiting = [asyncio.ensure_future(anext(reader)) for reader in readers]
        source.more.put_nowait(end)
        with pytest.raises((RuntimeError, PieceGone)):
            await writing
        writer.give_up()
        for one_waiting in waiting:
            with pytest.raises(PieceGone):
                await one_waiting


async def test_a_piece_that_the_store_dropped_is_gone_and_never_made_anew() -> None:
    one, two = guards(2)
    async with one, two:
        writer, source = writer_of(one), Source()
        assert await writer.ready()
        source.more.put_nowait(BODY)
        source.more.put_nowait(None)
        await writer.write(aiter(source))
        await two.engine.invalidate(two.engine.prefix + LAYOUT.name(2), two.policy)
        reader = reader_of(two)
        assert [await anext(reader), await anext(reader)] == [BODY[:100], BODY[100:200]]
        with pytest.raises(PieceGone):
            await anext(reader)


async def test_the_readers_of_a_killed_writer_end_with_an_error(valkey_url: str, namespace: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tests.http.pieces.writer",
        valkey_url,
        namespace,
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    async with StampedeGuard.from_url(patient(valkey_url), namespace=namespace) as guard:
        assert await process.stdout.readline() == b"ready\n"
        assert await process.stdout.readline() == b"sent\n"
        readers = [reader_of(guard, PieceLayout("dead", 100, len(BODY))) for _ in range(3)]
        for begin in (0, 100):
            assert {await anext(reader) for reader in readers} == {BODY[begin : begin + 100]}
        waiting = [asyncio.ensure_future(anext(reader)) for reader in readers]
        process.kill()
        await process.wait()
        for one_waiting in waiting:
            with pytest.raises(PieceGone):
                async with asyncio.timeout(60):
                    await one_waiting
