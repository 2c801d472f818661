"""A bounded wait is not followed by everybody computing, and a wait for a connection is not an outage."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
import redis.asyncio

from stampede_guard.api.guard import StampedeGuard
from tests.chaos.fleet import Call, Fleet, Worker

PROCESSES = 8
CALLERS = 50


async def herd_behind_a_hanging_holder(
    fleet: Fleet, task: Any, **policy: Any
) -> tuple[list[Worker], list[Call]]:
    """The first worker hangs; 50 callers in each of eight processes wait for it, as long as `policy` says."""
    workers = await fleet.start(PROCESSES, error_ttl=30.0, **policy)
    calls = [await workers[0].call("k", "hang")]
    await workers[0].next("started")
    calls.append(await workers[0].call("k", task, callers=CALLERS - 1))
    calls += [await worker.call("k", task, callers=CALLERS) for worker in workers[1:]]
    return workers, calls


async def count_of(calls: list[Call]) -> tuple[Counter[str], Counter[str]]:
    """Values, and errors by their type."""
    values: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for outcome in await asyncio.gather(*(call.outcome() for call in calls)):
        values += outcome.values
        for error, count in outcome.errors.items():
            errors[error.split(":")[0]] += count
    return values, errors


@pytest.mark.parametrize("limit", [1, 3])
async def test_waits_that_are_over_cost_no_more_computations_than_the_fallback_limit(
    fleet: Fleet, limit: int
) -> None:
    _, calls = await herd_behind_a_hanging_holder(
        fleet,
        {"kind": "sleep", "seconds": 0.1},
        wait_timeout=1.0,
        compute_timeout=20.0,
        fallback_limit=limit,
        fallback_timeout=15.0,
    )
    values, errors = await count_of(calls[1:])
    computed = fleet.journal.computations("k")
    assert 2 <= len(computed) <= 1 + limit
    assert set(values) <= set(computed[1:])
    assert values.total() + errors["WaitTimeout"] == PROCESSES * CALLERS - 1
    # The fallback's value ends the wait for all: nobody had to be turned away.
    assert not errors


async def test_without_a_fallback_everybody_is_told_and_nobody_computes(fleet: Fleet) -> None:
    _, calls = await herd_behind_a_hanging_holder(
        fleet, "hang", wait_timeout=1.0, compute_timeout=15.0, fallback_limit=0
    )
    values, errors = await count_of(calls[1:])
    assert (values, errors) == (Counter(), Counter(WaitTimeout=PROCESSES * CALLERS - 1))
    assert len(fleet.journal.computations("k")) == 1


async def test_a_fallback_that_hangs_too_is_the_last_one(fleet: Fleet) -> None:
    _, calls = await herd_behind_a_hanging_holder(
        fleet, "hang", wait_timeout=1.0, compute_timeout=15.0, fallback_limit=1, fallback_timeout=1.0
    )
    values, errors = await count_of(calls[1:])
    assert (values, errors) == (Counter(), Counter(WaitTimeout=PROCESSES * CALLERS - 1))
    assert len(fleet.journal.computations("k")) == 2


@pytest.mark.parametrize("connections", [1, 20])
async def test_a_wait_for_a_pooled_connection_is_never_read_as_an_outage(
    connections: int, valkey_url: str, namespace: str
) -> None:
    pool = redis.asyncio.BlockingConnectionPool.from_url(valkey_url, max_connections=connections, timeout=0.1)
    client = redis.asyncio.Redis(connection_pool=pool)
    computations = 0

    async def compute() -> int:
        nonlocal computations
        computations += 1
        await asyncio.sleep(0.3)
        return computations

    connect: Any = pool.get_connection
    taken = [await connect() for _ in range(connections)]
    try:
        # Not one connection of the pool is left; and fifty callers at once, of one key and of fifty.
        async with StampedeGuard(client, namespace=namespace) as guard:
            same = [guard.get_or_compute("k", compute) for _ in range(CALLERS)]
            assert set(await asyncio.gather(*same)) == {1}
            assert computations == 1
            await asyncio.gather(*(guard.get_or_compute(f"k{number}", compute) for number in range(CALLERS)))
            assert computations == 1 + CALLERS
            await asyncio.gather(*(guard.get_or_compute(f"k{number}", compute) for number in range(CALLERS)))
            assert computations == 1 + CALLERS
            assert not guard.engine.runtime().away
    finally:
        for connection in taken:
            await pool.release(connection)
        await client.aclose()
        await pool.disconnect()
