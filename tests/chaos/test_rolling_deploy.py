"""Version N and N+1 of the library in one fleet, as in the middle of a deploy: real processes, one server."""

from __future__ import annotations

import asyncio
import hashlib

import redis.asyncio

from stampede_guard.stores.connections.calls import Script
from tests.chaos.fleet import Fleet, Worker
from tests.stores import layout1

CALLERS = 20
EXPIRIES = 8
WORK = {"kind": "sleep", "seconds": 0.05}


async def both_versions(fleet: Fleet, count: int = 1) -> tuple[list[Worker], list[Worker]]:
    old = await fleet.start(count, program="tests.chaos.previous")
    return old, await fleet.start(count)


async def served(workers: list[Worker], key: str = "k") -> set[str]:
    """What all callers of these workers got, asking at once."""
    calls = [await worker.call(key, WORK, callers=CALLERS) for worker in workers]
    return {outcome.value for outcome in await asyncio.gather(*(call.outcome() for call in calls))}


async def stored(client: redis.asyncio.Redis, fleet: Fleet, key: str = "k") -> bytes:
    value: bytes = await client.get(f"{{{fleet.namespace}:={key}}}:v")
    return value


async def expire(client: redis.asyncio.Redis, fleet: Fleet, key: str = "k") -> None:
    await client.delete(f"{{{fleet.namespace}:={key}}}:v")


async def test_while_both_versions_run_an_expiry_costs_two_computations_at_most(
    fleet: Fleet, valkey: redis.asyncio.Redis
) -> None:
    old, new = await both_versions(fleet, 2)
    for _ in range(EXPIRIES):
        await expire(valkey, fleet)
        before = len(fleet.journal.computations("k"))
        values = await served([*old, *new])
        # Whoever was given the new version's value may ask once more: from then on all have one.
        values |= await served([*old, *new])
        computed = fleet.journal.computations("k")[before:]
        assert 1 <= len(computed) <= 2, computed
        assert values <= set(computed), "a value that nobody computed was served"
        assert await served([*old, *new]) == {computed[-1]}
        assert fleet.journal.computations("k")[before:] == computed, "they compute in turns"


async def test_what_the_old_version_stores_is_read_by_the_new_one(
    fleet: Fleet, valkey: redis.asyncio.Redis
) -> None:
    old, new = await both_versions(fleet)
    value = await served(old)
    assert (await stored(valkey, fleet)).startswith(b"SG1")
    assert await served(new) == value
    assert len(fleet.journal.computations("k")) == 1


async def test_what_the_new_version_stores_is_nothing_to_the_old_one_which_computes_once_for_all(
    fleet: Fleet, valkey: redis.asyncio.Redis
) -> None:
    old, new = await both_versions(fleet, 2)
    first = await served(new)
    assert (await stored(valkey, fleet)).startswith(b"SG2")
    second = await served(old)
    assert first != second
    assert (await stored(valkey, fleet)).startswith(b"SG1")
    assert await served(new) == second
    assert len(fleet.journal.computations("k")) == 2


async def test_waiters_of_either_version_are_woken_by_a_holder_of_the_other(fleet: Fleet) -> None:
    [old], [new] = await both_versions(fleet)
    for holder, waiter, computations in ((old, new, 1), (new, old, 2)):
        key = f"held-by-{holder.name}"
        held = await holder.call(key)
        computation = (await holder.next("started", key=key))["computation"]
        waiting = await waiter.call(key, WORK, callers=CALLERS)
        await waiter.next("answered", key=key, answer="Held")
        await holder.open(computation)
        assert (await held.outcome()).value == computation
        value = (await waiting.outcome()).value
        computed = fleet.journal.computations(key)
        assert (len(computed), computed[-1]) == (computations, value)


async def test_an_invalidation_of_either_version_fences_a_computation_of_the_other(fleet: Fleet) -> None:
    [old], [new] = await both_versions(fleet)
    for holder, other in ((old, new), (new, old)):
        key = f"held-by-{holder.name}"
        held = await holder.call(key)
        computation = (await holder.next("started", key=key))["computation"]
        assert await other.invalidate(key) == "done"
        await holder.open(computation)
        assert (await held.outcome()).value == computation, "it came before the invalidation"
        values = await served([other], key)
        assert computation not in values


async def test_the_old_version_in_these_tests_runs_its_own_scripts(
    fleet: Fleet, valkey: redis.asyncio.Redis
) -> None:
    old, new = await both_versions(fleet)
    text = b"".join((layout1.LUA / f"{name}.lua").read_bytes() for name in ("common", "acquire"))
    digests = [hashlib.sha1(text).hexdigest(), Script("acquire").digest.decode()]
    await served(old, "old")
    await served(new, "new")
    assert digests[0] != digests[1]
    assert await valkey.script_exists(*digests) == [True, True]
