"""Large responses are served stale by the same rules as others, as long as their pieces are stored."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import Policy
from stampede_guard.http.pieces.piece import PIECE_BYTES
from stampede_guard.stores.memory import MemoryStore
from tests.http.fleet import Fleet, status_of
from tests.http.large.bodies import LargeApp
from tests.http.large.content import OPTIONS, is_whole, whole
from tests.http.large.test_forgotten import pieces
from tests.support.clock import Clock
from tests.support.gate import until

BOTH = pytest.mark.parametrize("announced", [True, False], ids=["announced", "unannounced"])


def fleet_of(app: LargeApp, **more: Any) -> Fleet:
    return Fleet(app, **{"processes": 2, "stream_timeout": 60.0, **OPTIONS, **more})


@BOTH
async def test_while_it_is_refreshed_the_old_body_is_served(announced: bool) -> None:
    app = LargeApp(announced=announced, cache_control="max-age=60, stale-while-revalidate=30")
    async with fleet_of(app) as fleet:
        await fleet.get()
        fleet.clock.advance(70)
        app.go.clear()
        for process in (0, 1):
            answer = await fleet.get(process=process)
            assert is_whole(answer.body) and "; hit; ttl=-10" in status_of(answer)
            assert answer.get("age") == "70"
        part = await fleet.get(range=f"bytes={PIECE_BYTES}-{PIECE_BYTES + 9}")
        assert part.body == whole()[PIECE_BYTES : PIECE_BYTES + 10]
        app.go.set()
        await fleet.settled()
        answer = await fleet.get(process=1)
        assert is_whole(answer.body, 2) and "; hit; ttl=60" in status_of(answer) and app.calls == 2


@BOTH
@pytest.mark.parametrize("fault", ["status", "raises"])
async def test_it_replaces_an_error(fault: str, announced: bool) -> None:
    app = LargeApp(announced=announced, cache_control="max-age=60, stale-if-error=30")
    async with fleet_of(app) as fleet:
        await fleet.get()
        fleet.clock.advance(70)
        if fault == "status":
            app.status = 503
        else:
            app.handler = _raises
        for answer in await asyncio.gather(*fleet.herd(4)):
            assert is_whole(answer.body) and "detail=stale-if-error" in status_of(answer)
        await until(lambda: not app.open)


async def _raises(scope: Any, receive: Any, send: Any, number: int) -> None:
    raise RuntimeError("broke")


async def test_the_options_own_time_counts_if_no_field_forbids_it() -> None:
    for told, status in (("max-age=60", 200), ("max-age=60, must-revalidate", 503), ("s-maxage=60", 503)):
        app = LargeApp(cache_control=told)
        async with fleet_of(app, stale_if_error=30.0) as fleet:
            await fleet.get()
            fleet.clock.advance(70)
            app.status = 503
            assert (await fleet.get()).status == status
            fleet.clock.advance(25)
            assert (await fleet.get()).status == 503


async def test_a_client_may_ask_for_a_stale_one() -> None:
    app = LargeApp()
    async with fleet_of(app) as fleet:
        await fleet.get()
        fleet.clock.advance(70)
        assert is_whole((await fleet.get(cache_control="max-stale=20")).body)
        assert is_whole((await fleet.get(cache_control="max-stale=5")).body, 2)


async def test_it_replaces_an_answer_that_does_not_come() -> None:
    app, clock = LargeApp(cache_control="max-age=60, stale-if-error=30"), Clock(1_700_000_000.0)
    store = MemoryStore(clock=clock)
    async with fleet_of(app, on=store) as patient:
        await patient.get()
        clock.advance(70)
        app.go.clear()
        async with fleet_of(app, on=store, policy=Policy(compute_timeout=0.05)) as fleet:
            answer = await fleet.get()
            assert is_whole(answer.body) and "detail=timeout" in status_of(answer)


async def test_without_its_first_piece_it_replaces_no_error_and_is_dropped() -> None:
    app, store = LargeApp(cache_control="max-age=60, stale-if-error=30"), MemoryStore()
    async with fleet_of(app, on=store) as fleet:
        await fleet.get()
        store._entries.drop(next(name for name in pieces(store) if name.endswith(".0")))
        app.status = 503
        answer = await fleet.get(cache_control="no-cache")
        assert (answer.status, answer.body) == (503, b"no")
        assert all(store.look(name).value is None for name in store.names() if name.endswith("/?"))
        assert (await fleet.get(process=1)).status == 503
        app.status = 200
        assert is_whole((await fleet.get(process=1)).body, app.calls)


async def test_a_body_that_is_neither_fresh_nor_of_use_is_not_kept_with_its_validator() -> None:
    app, store = (
        LargeApp(etag='"a"', cache_control="max-age=60, must-revalidate, stale-if-error=9"),
        MemoryStore(),
    )
    async with fleet_of(app, on=store) as fleet:
        await fleet.get()
        (entry,) = [store.look(name) for name in store.names() if name.endswith("example.test/?")]
        assert entry.value is not None and entry.value.stale_ms == 0


async def test_its_pieces_are_stored_as_long_as_it_may_be_served() -> None:
    app = LargeApp(cache_control="max-age=60, stale-if-error=5000")
    async with fleet_of(app) as fleet:
        await fleet.get()
        fleet.clock.advance(5000)
        app.status = 503
        assert is_whole((await fleet.get(process=1)).body)


async def test_a_refusal_to_one_visitor_does_not_make_it_outlive_its_time() -> None:
    app = LargeApp()
    async with fleet_of(app, stale_if_error=30.0) as fleet:
        await fleet.get()
        fleet.clock.advance(70)
        app.headers["cache-control"] = "private"
        # The stored response stays for others.
        assert is_whole((await fleet.get()).body, 2)
        assert is_whole((await fleet.get(process=1, cache_control="max-stale")).body)
        fleet.clock.advance(25)
        assert is_whole((await fleet.get(process=1, cache_control="max-stale")).body, 3)
