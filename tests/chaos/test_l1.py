"""Eight processes with values of their own: what one of them invalidates is gone in all."""

from __future__ import annotations

import asyncio

import redis.asyncio

from tests.chaos.fleet import Fleet, Worker

TASK = {"kind": "sleep", "seconds": 0.01}


async def value(worker: Worker) -> str:
    return (await (await worker.call("k", TASK)).outcome()).value


async def warm(worker: Worker) -> str:
    async with asyncio.timeout(120):
        while (found := await value(worker)) and not (await worker.status())["l1"]:
            pass
    return found


async def until_empty(worker: Worker) -> None:
    async with asyncio.timeout(120):
        while (await worker.status())["l1"]:
            pass


async def test_an_invalidation_in_one_process_is_seen_by_the_other_seven(fleet: Fleet) -> None:
    workers = await fleet.start(8, ttl=3600.0, l1_ttl=3600.0)
    (first,) = {await warm(worker) for worker in workers}
    async with redis.asyncio.Redis.from_url(fleet.url) as client:
        # Behind everybody's back: whoever still has the value has it in his process.
        assert await client.delete(f"{{{fleet.namespace}:=k}}:v") == 1
    assert {await value(worker) for worker in workers} == {first}
    assert await workers[3].invalidate("k") == "done"
    await asyncio.gather(*map(until_empty, workers))
    (second,) = {await value(worker) for worker in workers}
    assert fleet.journal.computations("k") == [first, second]


async def test_a_process_whose_subscription_is_killed_serves_nothing_of_before(fleet: Fleet) -> None:
    workers = await fleet.start(2, ttl=3600.0, l1_ttl=3600.0)
    (first,) = {await warm(worker) for worker in workers}
    async with redis.asyncio.Redis.from_url(fleet.url) as client:
        # The invalidation is told to nobody: an operator's hand, or a message that was lost.
        await client.delete(*[f"{{{fleet.namespace}:=k}}:{part}" for part in "ver"])
        await client.client_kill_filter(_type="pubsub")
    for worker in workers:
        await worker.next("gap")
        await worker.next("gap")
    (second,) = {await value(worker) for worker in workers}
    assert fleet.journal.computations("k") == [first, second]
