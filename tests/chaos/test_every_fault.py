"""Whatever happens to the store: no caller sees an error, nobody stampedes, and afterwards all is as before."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff

from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from stampede_guard.policy import Limits, Policy
from stampede_guard.stores.connections.wire import value_key
from tests.chaos.crowd import Crowd
from tests.chaos.faulty import FAULTS, Fault, Faulty, black_hole, nobody_there
from tests.support.gate import until
from tests.support.proxy import FaultProxy

KEYS = [f"k{number}" for number in range(4)]
GUARDS = 3
# A short lease: who waits for a holder when the store goes believes in him for so long.
POLICY = Policy(ttl=0.1, lease_ttl=0.5, poll_interval=0.2)
LIMITS = Limits(max_local_computations=2)
LASTING = 0.5
"""Seconds that a fault lasts at least."""


@pytest.fixture
async def faulty(own_valkey: ValkeyServer, namespace: str) -> AsyncIterator[Faulty]:
    patient = Retry(NoBackoff(), 3)
    async with (
        FaultProxy(own_valkey.port) as proxy,
        redis.asyncio.Redis.from_url(own_valkey.url, retry=patient) as outside,
    ):
        yield Faulty(own_valkey, proxy, outside, [f"{namespace}:={key}" for key in KEYS])


@pytest.fixture
async def guards(faulty: Faulty, namespace: str) -> AsyncIterator[list[StampedeGuard]]:
    """Each has its own flights, connections and breaker, as a process has."""
    made = [
        StampedeGuard.from_url(faulty.proxy.url, namespace=namespace, policy=POLICY, limits=LIMITS)
        for _ in range(GUARDS)
    ]
    yield made
    for guard in made:
        await guard.aclose()


async def stored_anew(it: Faulty) -> None:
    """A value that was not there before is in the server."""
    keys = [value_key(name) for name in it.names]
    known = set(await it.outside.mget(keys))
    while not {value for value in await it.outside.mget(keys) if value} - known:  # noqa: ASYNC110
        await asyncio.sleep(0.005)


def anybody_away(guards: list[StampedeGuard]) -> bool:
    return any(guard.engine.runtime().away for guard in guards)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
async def test_no_caller_sees_it_and_no_more_is_computed_at_once_than_is_allowed(
    faulty: Faulty, guards: list[StampedeGuard], fault: Fault
) -> None:
    crowd = Crowd(guards, KEYS, computing=0.02)
    try:
        await until(lambda: len(crowd.computed) == len(KEYS))
        async with fault(faulty):
            if FAULTS[fault]:
                await until(lambda: all(guard.engine.runtime().away for guard in guards))
            crowd.count_anew()
            await asyncio.sleep(LASTING)  # the fault itself
            await until(lambda: all(crowd.calls[number] > 20 for number in range(GUARDS)))
            assert FAULTS[fault] is None or anybody_away(guards) is FAULTS[fault]
            assert crowd.peak <= GUARDS * len(KEYS) and crowd.of_one_key <= 1
            assert crowd.alone <= LIMITS.max_local_computations
            if FAULTS[fault]:
                assert 0 < crowd.peak <= GUARDS * LIMITS.max_local_computations
        await until(lambda: not anybody_away(guards))
        crowd.count_anew()
        await asyncio.wait_for(stored_anew(faulty), 60.0)
    finally:
        await crowd.stop()
    assert crowd.errors == []
    assert crowd.of_one_key <= 1
    await shared_again(guards)


async def shared_again(guards: list[StampedeGuard]) -> None:
    """What one of them computes, all of them are served."""
    computed = 0

    async def compute() -> int:
        nonlocal computed
        computed += 1
        return computed

    assert [await guard.get_or_compute("afterwards", compute, ttl=60) for guard in guards] == [1] * GUARDS
    assert computed == 1


@pytest.mark.alone(reason="the second is measured in which three guards and their crowds are to get on")
@pytest.mark.parametrize("fault", [nobody_there, black_hole])
async def test_the_first_values_are_stored_within_a_second_of_the_stores_return(
    faulty: Faulty, guards: list[StampedeGuard], fault: Fault
) -> None:
    crowd = Crowd(guards, KEYS, computing=0.02)
    loop = asyncio.get_running_loop()
    took = []
    try:
        # The quickest of some: what a busy machine adds is nothing that is promised.
        while len(took) < 4 and min(took, default=1.0) >= 1.0:
            await until(lambda: crowd.computed and not anybody_away(guards))
            async with fault(faulty):
                await until(lambda: all(guard.engine.runtime().away for guard in guards))
            back = loop.time()
            await asyncio.wait_for(stored_anew(faulty), 60.0)
            took.append(loop.time() - back)
    finally:
        await crowd.stop()
    assert min(took) < 1.0 and crowd.errors == []
