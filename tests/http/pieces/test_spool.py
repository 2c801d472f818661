"""A body of unknown length: every byte reaches its client once, whatever is stored, and the memory is bounded."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stampede_guard.http.pieces.spool import Spool

SIZE = 4
BODY = bytes(range(40))


class Shelf:
    """A store that keeps the first `keeps` pieces."""

    def __init__(self, keeps: int = 100) -> None:
        self.keeps = keeps
        self.pieces: dict[int, bytes] = {}

    async def put(self, number: int, piece: bytes) -> bool:
        await asyncio.sleep(0)
        if number < self.keeps:
            self.pieces[number] = piece
        return number < self.keeps

    async def look(self, number: int) -> bytes:
        await asyncio.sleep(0)
        return self.pieces[number]

    def spool(self, most: int = 100) -> Spool:
        return Spool(self.put, self.look, size=SIZE, most=most)


@example(chunks=[b"ab", b"cd"], keeps=0, most=1, begin=3, turns=[])
@given(
    chunks=st.lists(st.binary(max_size=9), max_size=8),
    keeps=st.integers(0, 9),
    most=st.integers(1, 60),
    begin=st.integers(0, 3),
    turns=st.lists(st.integers(0, 4), max_size=20),
)
def test_its_client_gets_every_byte_once(
    chunks: list[bytes], keeps: int, most: int, begin: int, turns: list[int]
) -> None:
    async def play() -> None:
        shelf = Shelf(keeps)
        spool = shelf.spool(most)
        steps = iter(turns)
        got = b"".join(chunks)[:begin]

        async def write() -> None:
            for chunk in chunks:
                for _ in range(next(steps, 0)):
                    await asyncio.sleep(0)
                await spool.add(chunk)
            await spool.end()

        async def read() -> None:
            nonlocal got
            async for chunk in spool.read(len(got)):
                got += chunk
                for _ in range(next(steps, 0)):
                    await asyncio.sleep(0)

        async with asyncio.timeout(10):
            await asyncio.gather(write(), read())
        whole = b"".join(chunks)
        assert got == whole
        why = spool.outcome.result()
        if not why:
            assert b"".join(shelf.pieces.values()) == whole and len(whole) <= most
            assert {len(piece) for piece in list(shelf.pieces.values())[:-1]} <= {SIZE}
        assert (why == "too large") is (len(whole) > most and why != "store")

    asyncio.run(play())


async def test_a_body_that_is_stored_does_not_wait_for_its_client_nor_fill_the_memory() -> None:
    shelf = Shelf()
    spool = shelf.spool()
    for begin in range(0, 40, 3):
        await spool.add(BODY[begin : begin + 3])
        assert len(spool._memory) < SIZE
    await spool.end()
    assert spool.outcome.result() == "" and not spool._memory
    assert b"".join([chunk async for chunk in spool.read(0)]) == BODY


@pytest.mark.parametrize("why", ["stream", "too large", "store"])
async def test_a_body_that_is_not_stored_waits_for_its_client(why: str) -> None:
    spool = Shelf(1 if why == "store" else 100).spool(20 if why == "too large" else 100)
    if why == "stream":
        spool.cut_off("stream")

    async def write() -> None:
        for begin in range(0, 40, 8):
            await spool.add(BODY[begin : begin + 8])
        await spool.end()

    writing = asyncio.ensure_future(write())
    for _ in range(50):
        await asyncio.sleep(0)
    assert not writing.done() and spool.length < 40 and spool.outcome.result() == why
    got = b""
    async for chunk in spool.read(0):
        got += chunk
    assert got == BODY
    await writing


async def test_what_is_for_nobody_is_not_kept_in_memory() -> None:
    spool = Shelf().spool()
    spool.leave()
    spool.cut_off("stream")
    for _ in range(10):
        await spool.add(BODY)
    assert not spool._memory
    await spool.left()


async def test_an_error_comes_after_the_bytes_before_it() -> None:
    spool, got = Shelf().spool(), b""
    await spool.add(BODY[:6])
    spool.fail(ValueError("broke"))
    with pytest.raises(ValueError, match="broke"):
        async for chunk in spool.read(0):
            got += chunk
    assert got == BODY[:6] and spool.outcome.result() == "broken off"
