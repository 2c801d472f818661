"""What happens to the callers when something happens to the store while somebody computes for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from tests.chaos.fleet import Call, Fleet, Worker

PARTS = ("v", "e", "r", "l", "w", "f")
"""Value, failure, record, lease, waiters, fallback slots: the keys of an entry."""


@asynccontextmanager
async def opening_gates(fleet: Fleet) -> AsyncIterator[None]:
    """Whatever is started from now on is computed at once."""

    async def open_all() -> None:
        while True:
            worker, started = await fleet.first("started")
            await worker.open(started["computation"])

    opener = asyncio.create_task(open_all())
    try:
        yield
    finally:
        opener.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await opener


async def computing_and_waiting(fleet: Fleet, count: int) -> tuple[str, list[Worker], list[Call]]:
    """The first worker computes, the others wait: 10 callers each."""
    workers = await fleet.start(count)
    calls = [await workers[0].call("k", callers=10)]
    started = await workers[0].next("started")
    calls += [await worker.call("k", callers=10) for worker in workers[1:]]
    for worker in workers[1:]:
        await worker.next("answered", answer="Held")
    return started["computation"], workers, calls


async def all_served(calls: list[Call]) -> set[str]:
    """The values that were served; nobody saw an error."""
    outcomes = [await call.outcome() for call in calls]
    assert [outcome.errors for outcome in outcomes if outcome.errors] == []
    return {value for outcome in outcomes for value in outcome.values}


async def back(worker: Worker) -> None:
    """The worker asks the store again."""
    while (await worker.status())["away"]:
        await worker.next("log", text="the store is back")


async def one_value_is_stored(workers: list[Worker]) -> str:
    """A later call of any worker is a hit, or the one computation that makes it so."""
    for worker in workers:
        await back(worker)
    values = [(await (await worker.call("k")).outcome()).value for worker in workers]
    assert len(set(values)) == 1
    return values[0]


@pytest.mark.parametrize("keep_data", [True, False], ids=["with its data", "empty"])
async def test_a_restart_of_the_store_costs_at_most_one_more_computation(
    own_fleet: Fleet, own_valkey: ValkeyServer, keep_data: bool
) -> None:
    computation, workers, calls = await computing_and_waiting(own_fleet, 6)
    own_fleet.forget("answered")
    await asyncio.to_thread(own_valkey.restart, keep_data=keep_data)
    async with opening_gates(own_fleet):
        await own_fleet.first("answered")
        await workers[0].open(computation)
        served = await all_served(calls)
        computed = own_fleet.journal.computations("k")
        assert served <= set(computed) and len(computed) <= 2
        assert await one_value_is_stored(workers) in computed


@pytest.mark.parametrize("part", PARTS)
async def test_an_evicted_key_costs_at_most_one_more_computation(fleet: Fleet, part: str) -> None:
    computation, workers, calls = await computing_and_waiting(fleet, 3)
    async with redis.asyncio.Redis.from_url(fleet.url) as client, opening_gates(fleet):
        for key in await client.keys(f"{{{fleet.namespace}:=k}}:{part}"):
            await client.delete(key)
        fleet.forget("answered")
        await fleet.first("answered")
        await workers[0].open(computation)
        served = await all_served(calls)
        computed = fleet.journal.computations("k")
        assert served <= set(computed)
        assert len(computed) <= (2 if part in ("r", "l") else 1)
        assert await one_value_is_stored(workers) in computed
        assert fleet.journal.computations("k") == computed


async def test_a_frozen_store_is_one_computation_per_process_and_an_error_for_nobody(
    own_fleet: Fleet, own_valkey: ValkeyServer
) -> None:
    computation, workers, calls = await computing_and_waiting(own_fleet, 4)
    own_valkey.pause()
    async with opening_gates(own_fleet):
        await asyncio.sleep(5.0)  # the fault itself
        own_valkey.resume()
        await workers[0].open(computation)
        served = await all_served(calls)
        assert served <= set(own_fleet.journal.computations("k"))
        assert max(own_fleet.journal.by_worker("k").values()) == 1
        await one_value_is_stored(workers)
        # The frozen time may have cost the lease and what was computed meanwhile is not stored: one more.
        assert len(own_fleet.journal.computations("k")) <= len(workers) + 1
