"""Pieces that no response names any more leave the store at once, and not with the lifetime of the response."""

from __future__ import annotations

import asyncio

import pytest

from stampede_guard.events import Invalidated
from stampede_guard.http.pieces.piece import PIECE_BYTES, PieceGone
from stampede_guard.stores.memory import MemoryStore
from tests.http.fleet import Fleet, cached
from tests.http.large.bodies import LargeApp, has_bytes, is_broken
from tests.http.large.content import LARGE, OPTIONS, is_whole
from tests.http.test_traps_streaming import Client
from tests.support.gate import until


def pieces(store: MemoryStore) -> list[str]:
    """Those that are stored."""
    return [name for name in store.names() if "http3p:" in name and store.look(name).value is not None]


def fleet_of(app: LargeApp, store: MemoryStore, processes: int = 2) -> Fleet:
    app.headers |= cached(cache_control="max-age=31536000")
    return Fleet(app, processes=processes, on=store, **OPTIONS)


async def test_the_pieces_of_a_body_that_breaks_off_are_deleted() -> None:
    app, store = LargeApp(fails=2 * PIECE_BYTES), MemoryStore()
    async with fleet_of(app, store) as fleet:
        app.more = asyncio.Semaphore(2)
        own = Client(fleet)
        await has_bytes(own, 2 * PIECE_BYTES)
        await until(lambda: len(pieces(store)) == 2)
        app.more.release()
        await is_broken(own, RuntimeError)
        await until(lambda: not pieces(store))


async def test_the_pieces_of_a_process_that_ends_are_deleted() -> None:
    app, store = LargeApp(), MemoryStore()
    app.more = asyncio.Semaphore(2)
    async with fleet_of(app, store) as fleet:
        own = Client(fleet)
        await has_bytes(own, 2 * PIECE_BYTES)
        await fleet.middlewares[0].cache.large.aclose(within=0.01)
        await until(lambda: not pieces(store))
        own.task.cancel()
        await asyncio.wait({own.task})


async def test_a_reader_that_finds_a_body_broken_deletes_what_is_before_the_break() -> None:
    """As after the death of its writer, which can delete nothing."""
    app, store = LargeApp(), MemoryStore()
    async with fleet_of(app, store) as fleet:
        assert is_whole((await fleet.get()).body)
        third = next(name for name in pieces(store) if name.endswith(".2"))
        store._entries.drop(third)
        await is_broken(Client(fleet, process=1), PieceGone)
        assert [name[-2:] for name in pieces(store)] == [".3"]


@pytest.mark.parametrize("sent", [LARGE - 500, LARGE + 500])
async def test_the_pieces_of_a_body_of_another_length_than_announced_are_deleted(sent: int) -> None:
    app, store = LargeApp(size=sent), MemoryStore()
    async with fleet_of(app, store) as fleet:
        app.headers["content-length"] = str(LARGE)
        client = Client(fleet)
        await asyncio.wait({client.task})
        assert client.task.exception() is not None
        await until(lambda: not pieces(store))


@pytest.mark.parametrize("announced", [True, False], ids=["announced", "unannounced"])
async def test_a_body_that_breaks_off_is_at_most_one_invalidation(announced: bool) -> None:
    """Hooks count responses, not their pieces. Without a length, no response is stored yet."""
    app, store = LargeApp(fails=2 * PIECE_BYTES, announced=announced), MemoryStore()
    found: list[str] = []
    async with Fleet(app, on=store, stream_timeout=60.0, **OPTIONS) as fleet:
        fleet.guards[0].add_hook(
            lambda event: found.append(event.entry) if isinstance(event, Invalidated) else None
        )
        app.more = asyncio.Semaphore(2)
        own = Client(fleet)
        await has_bytes(own, 2 * PIECE_BYTES)
        await until(lambda: len(pieces(store)) == 2)
        app.more.release()
        await is_broken(own, RuntimeError)
        await until(lambda: not pieces(store))
        assert found == (["web:http3:http://example.test/?"] if announced else [])
