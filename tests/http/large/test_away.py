"""A large body whose store goes away, or whose process ends, while it is written."""

from __future__ import annotations

import asyncio

from stampede_guard import Limits, StampedeGuard
from stampede_guard.http.middleware import StampedeMiddleware
from stampede_guard.http.pieces.piece import PIECE_BYTES
from stampede_guard.testing import FaultyStore
from tests.http.fleet import Fleet
from tests.http.large.bodies import LargeApp, has_bytes, let_go
from tests.http.large.content import OPTIONS, is_whole
from tests.http.test_traps_streaming import Client
from tests.support.clock import Clock


def join(fleet: Fleet, app: LargeApp, guard: StampedeGuard) -> StampedeGuard:
    """Another process of the fleet."""
    fleet.guards.append(guard)
    fleet.middlewares.append(StampedeMiddleware(app, guard=guard, clock=fleet.clock, **OPTIONS))
    return guard


def one_turn(store: FaultyStore) -> StampedeGuard:
    return StampedeGuard(store, namespace="web", limits=Limits(max_local_computations=1))


async def test_a_writer_needs_no_turn_of_the_computations_without_the_store() -> None:
    app = LargeApp()
    app.more = asyncio.Semaphore(1)
    store = FaultyStore(clock=Clock(1_700_000_000.0))
    async with Fleet(app, on=store, **OPTIONS) as fleet:
        join(fleet, app, one_turn(store))
        own = Client(fleet, process=1)
        await has_bytes(own, PIECE_BYTES)
        store.fail()
        let_go(app.more)
        async with asyncio.timeout(60):
            await own.task
        assert is_whole(own.body) and app.calls == 1


async def test_a_large_response_takes_no_second_turn_when_it_begins_without_the_store() -> None:
    app = LargeApp()
    store = FaultyStore(clock=Clock(1_700_000_000.0))
    async with Fleet(app, on=store, **OPTIONS) as fleet:
        guard = join(fleet, app, one_turn(store))
        store.fail()
        async with asyncio.timeout(60):
            while not guard.engine.runtime().away:
                await fleet.get("/something", process=1)
            calls = app.calls
            assert is_whole((await fleet.get(process=1)).body, calls + 1)


async def test_a_process_that_ends_drops_what_it_has_not_written_to_its_end(
    valkey_url: str, namespace: str
) -> None:
    app = LargeApp()
    app.more = asyncio.Semaphore(1)
    limits = Limits(drain_timeout=0.01)
    async with Fleet(app, on=valkey_url, namespace=namespace, **OPTIONS) as fleet:
        join(fleet, app, StampedeGuard.from_url(valkey_url, namespace=namespace, limits=limits))
        own = Client(fleet, process=1)
        await has_bytes(own, PIECE_BYTES)
        own.task.cancel()
        await asyncio.wait({own.task})
        await fleet.middlewares[1].cache.aclose()
        let_go(app.more)
        assert is_whole((await fleet.get()).body, 2)
