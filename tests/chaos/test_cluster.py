"""Fleets on a cluster and behind sentinels: wake-ups and signs of life on every master, and masters that die."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from bench.herd.cluster import ValkeyCluster, ValkeySentinel
from bench.herd.valkey import ValkeyServer
from tests.chaos.fleet import PATIENCE, Call, Fleet, Worker

LONG = 120.0
"""Seconds for a lease that nobody lives to see lapse: longer than a test's patience."""
FAILOVER = {"lease_ttl": 15.0}
"""A lease that outlives the election of a new master."""


@pytest.fixture
async def on_cluster(valkey_cluster: ValkeyCluster, namespace: str, tmp_path: Path) -> AsyncIterator[Fleet]:
    async with Fleet(valkey_cluster.url, namespace, tmp_path, lease_ttl=LONG) as fleet:
        yield fleet


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


def one_key_per_master(cluster: ValkeyCluster, namespace: str) -> dict[str, ValkeyServer]:
    found: dict[int, tuple[str, ValkeyServer]] = {}
    for number in range(1000):
        server = cluster.master_of(f"{namespace}:=k{number}")
        found.setdefault(server.port, (f"k{number}", server))
        if len(found) == cluster.masters:
            return dict(found.values())
    raise AssertionError("some master holds nothing")


async def computing_and_waiting(
    fleet: Fleet, keys: list[str], *, workers: int
) -> tuple[list[Worker], dict[str, str], list[Call]]:
    """The first worker computes every key, the others wait for it. The computations' names, by key."""
    first, *others = await fleet.start(workers)
    await connected([first, *others], keys)
    calls = [await first.call(key, callers=5) for key in keys]
    computations = {key: (await first.next("started", key=key))["computation"] for key in keys}
    for worker in others:
        calls += [await worker.call(key, callers=5) for key in keys]
        for key in keys:
            await worker.next("answered", key=key, answer="Held")
    return [first, *others], computations, calls


async def connected(workers: list[Worker], keys: list[str]) -> None:
    """Each worker knows the masters of these keys.

    A first command finds its master within the same deadline as any other one. On a busy machine that is not enough,
    and a worker that then believes the store away would compute by itself.
    """
    async with asyncio.timeout(PATIENCE):
        for worker in workers:
            for key in keys:
                while await worker.invalidate(key) != "done":  # noqa: ASYNC110 - no event tells of it
                    await asyncio.sleep(0.05)
        await all_back(workers)


async def served(calls: list[Call]) -> set[str]:
    """The values that were served; nobody saw an error."""
    outcomes = [await call.outcome() for call in calls]
    assert [outcome.errors for outcome in outcomes if outcome.errors] == []
    return {value for outcome in outcomes for value in outcome.values}


async def all_back(workers: list[Worker]) -> None:
    """Nothing is away for anybody any more."""
    for worker in workers:
        while (await worker.status())["away"]:  # noqa: ASYNC110 - no event tells of it
            await asyncio.sleep(0.05)


async def replaced(cluster: ValkeyCluster | ValkeySentinel, name: str, dead: ValkeyServer) -> None:
    """Wait until somebody else is the master."""

    def now() -> ValkeyServer:
        return cluster.master_of(name) if isinstance(cluster, ValkeyCluster) else cluster.master()

    async with asyncio.timeout(120):
        while await asyncio.to_thread(now) is dead:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def stored_once(fleet: Fleet, workers: list[Worker], key: str) -> None:
    """One computation makes the value for all workers, or none: it is stored already."""
    before = len(fleet.journal.computations(key))
    values = [(await (await worker.call(key)).outcome()).value for worker in workers]
    assert len(set(values)) == 1, values
    assert len(fleet.journal.computations(key)) <= before + 1


async def test_wake_ups_reach_waiters_on_every_master(
    on_cluster: Fleet, valkey_cluster: ValkeyCluster
) -> None:
    keys = list(one_key_per_master(valkey_cluster, on_cluster.namespace))
    workers, computations, calls = await computing_and_waiting(on_cluster, keys, workers=3)
    on_cluster.forget("answered")
    for computation in computations.values():
        await workers[0].open(computation)
    assert await served(calls) == set(computations.values())
    assert [on_cluster.journal.computations(key) for key in keys] == [[computations[key]] for key in keys]


async def test_a_killed_holder_is_replaced_on_every_master(
    on_cluster: Fleet, valkey_cluster: ValkeyCluster
) -> None:
    keys = list(one_key_per_master(valkey_cluster, on_cluster.namespace))
    workers, computations, calls = await computing_and_waiting(on_cluster, keys, workers=3)
    async with opening_gates(on_cluster):
        workers[0].kill()
        values = await served(calls[len(keys) :])
    for key in keys:
        first, second = on_cluster.journal.computations(key)
        assert first == computations[key] and second in values


async def test_a_killed_master_in_the_middle_of_computations_costs_one_more_at_most(
    namespace: str, tmp_path: Path
) -> None:
    with ValkeyCluster(replicas=1) as cluster:
        keys = one_key_per_master(cluster, namespace)
        async with Fleet(cluster.url, namespace, tmp_path, **FAILOVER) as fleet:
            workers, computations, calls = await computing_and_waiting(fleet, list(keys), workers=4)
            key, master = next(iter(keys.items()))
            master.kill()
            await replaced(cluster, f"{namespace}:={key}", master)
            async with opening_gates(fleet):
                for computation in computations.values():
                    await workers[0].open(computation)
                await served(calls)
                computed = {each: fleet.journal.computations(each) for each in keys}
                assert max(map(len, computed.values())) <= 2, computed
                await all_back(workers)
                for each in keys:
                    await stored_once(fleet, workers, each)


async def test_while_a_master_is_dead_only_its_entries_are_computed_in_each_process(
    namespace: str, tmp_path: Path
) -> None:
    options = {"cluster-require-full-coverage": "no"}
    with ValkeyCluster(replicas=1, options=options) as cluster:
        keys = [f"k{number}" for number in range(24)]
        holders = {key: cluster.master_of(f"{namespace}:={key}") for key in keys}
        dead = holders[keys[0]]
        task = {"kind": "sleep", "seconds": 0.05}
        async with Fleet(cluster.url, namespace, tmp_path, **FAILOVER) as fleet:
            workers = await fleet.start(4)
            await served([await worker.call("warm", task) for worker in workers])
            dead.kill()
            await served([await worker.call(key, task, callers=3) for key in keys for worker in workers])
            for key in keys:
                computed = fleet.journal.computations(key)
                assert len(computed) == 1 or holders[key] is dead, (key, computed)
                assert max(fleet.journal.by_worker(key).values()) == 1
            await replaced(cluster, f"{namespace}:={keys[0]}", dead)
            await all_back(workers)
            again = [f"{key}-again" for key in keys]
            await served([await worker.call(key, task, callers=3) for key in again for worker in workers])
            assert {key: len(fleet.journal.computations(key)) for key in again} == dict.fromkeys(again, 1)


async def test_a_failover_by_sentinels_costs_one_more_computation_at_most(
    namespace: str, tmp_path: Path
) -> None:
    with ValkeySentinel() as sentinel:
        async with Fleet(sentinel.url, namespace, tmp_path, **FAILOVER) as fleet:
            workers, computations, calls = await computing_and_waiting(fleet, ["k"], workers=4)
            dead = sentinel.master()
            sentinel.kill_sentinel(0)
            dead.kill()
            await replaced(sentinel, "", dead)
            async with opening_gates(fleet):
                await workers[0].open(computations["k"])
                await served(calls)
                assert len(fleet.journal.computations("k")) <= 2
                await all_back(workers)
                await stored_once(fleet, workers, "k")
