"""A large body whose store goes away while it is written."""

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


def on_one_turn(fleet: Fleet, app: LargeApp, store: FaultyStore) -> StampedeGuard:
    """Another process of the fleet, which runs one computation at most while the store is away."""
    guard = StampedeGuard(store, namespace="web", limits=Limits(max_local_computations=1))
    fleet.guards.append(guard)
    fleet.middlewares.append(StampedeMiddleware(app, guard=guard, clock=fleet.clock, **OPTIONS))
    return guard


async def test_a_writer_needs_no_turn_of_the_computations_without_the_store() -> None:
    app = LargeApp()
    app.more = asyncio.Semaphore(1)
    store = FaultyStore(clock=Clock(1_700_000_000.0))
    async with Fleet(app, on=store, **OPTIONS) as fleet:
        on_one_turn(fleet, app, store)
        own = Client(fleet, process=1)
        await has_bytes(own, PIECE_BYTES)
        store.fail()
        let_go(app.more)
        async with asyncio.timeout(10):
            await own.task
        assert is_whole(own.body) and app.calls == 1


async def test_a_large_response_takes_no_second_turn_when_it_begins_without_the_store() -> None:
    app = LargeApp()
    store = FaultyStore(clock=Clock(1_700_000_000.0))
    async with Fleet(app, on=store, **OPTIONS) as fleet:
        guard = on_one_turn(fleet, app, store)
        store.fail()
        async with asyncio.timeout(10):
            while not guard.engine.runtime().away:
                await fleet.get("/something", process=1)
            calls = app.calls
            assert is_whole((await fleet.get(process=1)).body, calls + 1)
