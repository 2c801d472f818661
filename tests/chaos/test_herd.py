"""The herd itself: eight processes, fifty callers each, one cold key."""

from __future__ import annotations

import asyncio

import redis.asyncio

from tests.chaos.fleet import Fleet

PROCESSES = 8
CALLERS = 50


async def herd(fleet: Fleet, key: str, seconds: float) -> list[str]:
    """All callers of all processes at once. Returns what was computed; everybody got it."""
    task = {"kind": "sleep", "seconds": seconds}
    calls = [await worker.call(key, task, callers=CALLERS) for worker in fleet.workers]
    outcomes = await asyncio.gather(*(call.outcome() for call in calls))
    computed = fleet.journal.computations(key)
    assert {outcome.value for outcome in outcomes} == set(computed)
    return computed


async def test_a_cold_key_is_computed_once_however_long_it_takes(fleet: Fleet) -> None:
    # Three keys at the same time, so that the shorter ones cost the run no time.
    await fleet.start(PROCESSES, wait_timeout=60.0)
    async with asyncio.TaskGroup() as herds:
        lengths = {
            seconds: herds.create_task(herd(fleet, f"k{seconds}", seconds)) for seconds in (0.45, 8.0, 35.0)
        }
    assert {seconds: len(computed.result()) for seconds, computed in lengths.items()} == {
        0.45: 1,
        8.0: 1,
        35.0: 1,
    }


async def test_each_of_many_expiries_costs_one_computation(fleet: Fleet) -> None:
    await fleet.start(PROCESSES)
    async with redis.asyncio.Redis.from_url(fleet.url) as client:
        for expiry in range(1, 11):
            task = {"kind": "sleep", "seconds": 0.1}
            calls = [await worker.call("k", task, callers=CALLERS) for worker in fleet.workers]
            outcomes = await asyncio.gather(*(call.outcome() for call in calls))
            computed = fleet.journal.computations("k")
            assert len(computed) == expiry
            assert {outcome.value for outcome in outcomes} == {computed[-1]}
            # What the end of a lifetime does.
            await client.delete(f"{{{fleet.namespace}:=k}}:v")
