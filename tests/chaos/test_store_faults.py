"""What happens to the callers when something happens to the store while somebody computes for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from tests.chaos.fleet import STRUCK, Call, Fleet, Worker
from tests.support.proxy import FaultProxy

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


async def test_a_stale_value_that_is_evicted_while_it_is_refreshed_makes_its_callers_wait(
    fleet: Fleet,
) -> None:
    workers = await fleet.start(3, ttl=600.0, stale_ttl=60.0)
    stored = f"{{{fleet.namespace}:=k}}:v"
    async with redis.asyncio.Redis.from_url(fleet.url) as client:
        old = (await (await workers[0].call("k", {"kind": "sleep", "seconds": 0.0})).outcome()).value
        fleet.forget("started")
        assert await client.pexpire(stored, 59_000)  # stale, and what is computed next stays fresh
        assert (await (await workers[0].call("k")).outcome()).value == old
        refresh = (await workers[0].next("started"))["computation"]
        assert await client.delete(stored) == 1
    calls = [await worker.call("k", callers=10) for worker in workers]
    for worker in workers[1:]:
        await worker.next("answered", answer="Held")
    await workers[0].open(refresh)
    assert await all_served(calls) == {refresh}
    assert fleet.journal.computations("k") == [old, refresh]


async def test_evicted_fallback_slots_cost_at_most_one_more_fallback(fleet: Fleet) -> None:
    workers = await fleet.start(4, wait_timeout=1.0, fallback_timeout=60.0, compute_timeout=80.0)
    calls = [await workers[0].call("k")]
    holding = (await workers[0].next("started"))["computation"]
    calls.append(await workers[1].call("k", callers=10))
    fallback = (await workers[1].next("started"))["computation"]
    async with redis.asyncio.Redis.from_url(fleet.url) as client:
        assert await client.delete(f"{{{fleet.namespace}:=k}}:f") == 1
    calls += [await worker.call("k", callers=10) for worker in workers[2:]]
    second, started = await fleet.first("started")
    # The value of either ends the wait for all.
    await second.open(started["computation"])
    assert await all_served(calls[2:]) == {started["computation"]}
    await workers[1].open(fallback)
    await workers[0].open(holding)
    assert await all_served(calls[:2]) <= {holding, fallback, started["computation"]}
    assert fleet.journal.computations("k") == [holding, fallback, started["computation"]]
    # What was begun first ended last, and replaced nothing.
    stored = {(await (await worker.call("k")).outcome()).value for worker in workers}
    assert stored == {started["computation"]}


async def test_a_holder_that_is_cut_off_serves_its_own_callers_and_disturbs_nobody(fleet: Fleet) -> None:
    async with FaultProxy(urlsplit(fleet.url).port or 6379) as proxy:
        (cut_off,) = await fleet.start(1, url=proxy.url, lease_ttl=1.0, deadline=STRUCK)
        others = await fleet.start(2, lease_ttl=1.0)
        calls = [await cut_off.call("k", callers=10)]
        lost = (await cut_off.next("started"))["computation"]
        calls += [await worker.call("k", callers=10) for worker in others]
        for worker in others:
            await worker.next("answered", answer="Held")
        # Its subscription still stands as far as the store can see, so its lease has to run out.
        proxy.black_hole()
        heir, started = await fleet.first("started")
        newer = started["computation"]
        await heir.open(newer)
        assert await all_served(calls[1:]) == {newer}
        await cut_off.open(lost)
        assert await all_served(calls[:1]) == {lost}
        proxy.heal()
        await back(cut_off)
        assert await one_value_is_stored([cut_off, *others]) == newer
        assert fleet.journal.computations("k") == [lost, newer]


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
