"""What happens to the callers when something happens to the process that computes for them."""

from __future__ import annotations

import time
from collections.abc import Callable

import redis.asyncio

from tests.chaos.fleet import Call, Fleet, Worker

UNTIL_LOOKED_AGAIN = 3
"""Asks of a waiter after which a suspicion that was to last would have shown."""


async def held(worker: Worker) -> None:
    """The worker waits for a lease that is held elsewhere."""
    await worker.next("answered", answer="Held")


async def holder_and_waiters(
    fleet: Fleet, workers: list[Worker], task: object = "gate"
) -> tuple[str, list[Call]]:
    """The first worker computes, all others wait. Returns the computation's name and a call of 10 in each."""
    holder, *waiters = workers
    calls = [await holder.call("k", task, callers=10)]  # type: ignore[arg-type]
    started = await holder.next("started")
    calls += [await waiter.call("k", callers=10) for waiter in waiters]
    for waiter in waiters:
        await held(waiter)
    return started["computation"], calls


async def test_a_killed_holder_is_replaced_by_one_other_long_before_its_lease_ends(
    fleet: Fleet, record_property: Callable[[str, object], None]
) -> None:
    # With such a lease only the loss of its subscription can tell that the holder is gone.
    workers = await fleet.start(4, lease_ttl=200.0, wait_timeout=100.0)
    _, calls = await holder_and_waiters(fleet, workers)
    killed_at = time.monotonic()
    workers[0].kill()
    heir, started = await fleet.first("started", key="k")
    takeover = started["at"] - killed_at
    print(f"takeover after SIGKILL: {takeover:.3f} s")
    record_property("takeover_seconds", round(takeover, 3))
    assert takeover < 60.0
    await heir.open(started["computation"])
    outcomes = [await call.outcome() for call in calls[1:]]
    assert {outcome.value for outcome in outcomes} == {started["computation"]}
    assert len(fleet.journal.computations("k")) == 2


async def test_a_holder_that_was_frozen_past_its_lease_does_not_overwrite_the_newer_value(
    fleet: Fleet,
) -> None:
    workers = await fleet.start(3, lease_ttl=1.0)
    holder = workers[0]
    late, calls = await holder_and_waiters(fleet, workers)
    holder.freeze()
    heir, started = await fleet.first("started", key="k")
    newer = started["computation"]
    await heir.open(newer)
    assert {(await call.outcome()).value for call in calls[1:]} == {newer}
    await holder.open(late)
    holder.thaw()
    # Its own callers came before anything newer began, so either value is right for them.
    assert (await calls[0].outcome()).value in (late, newer)
    await holder.next("ended", computation=late)
    for worker in workers:
        assert (await (await worker.call("k")).outcome()).value == newer
    assert fleet.journal.computations("k") == [late, newer]


async def test_a_blocked_event_loop_costs_one_more_computation_and_the_fence_decides(fleet: Fleet) -> None:
    workers = await fleet.start(3)
    late, calls = await holder_and_waiters(fleet, workers, {"kind": "block", "seconds": 8.0})
    heir, started = await fleet.first("started", key="k")
    newer = started["computation"]
    await heir.open(newer)
    assert {(await call.outcome()).value for call in calls[1:]} == {newer}
    assert (await calls[0].outcome()).value in (late, newer)
    for worker in workers:
        assert (await (await worker.call("k")).outcome()).value == newer
    assert fleet.journal.computations("k") == [late, newer]


async def subscription_of(client: redis.asyncio.Redis, worker: Worker) -> str:
    """The id of the connection on which the worker listens."""
    for line in await client.client_list(_type="pubsub"):
        if line["name"] == worker.name:
            return str(line["id"])
    raise AssertionError(f"{worker.name} does not listen")


async def test_a_holder_that_was_missed_once_and_is_back_is_no_dead_holder(own_fleet: Fleet) -> None:
    # The gap is long, so that a busy machine cannot turn a blip into a death; one sighting must never be enough.
    fleet = own_fleet
    workers = await fleet.start(4, lease_ttl=20.0, takeover_gap=6.0)
    holder, *waiters = workers
    computation, calls = await holder_and_waiters(fleet, workers)
    async with redis.asyncio.Redis.from_url(fleet.url) as client:
        for _ in range(3):
            fleet.forget("gap")
            fleet.forget("answered")
            # Frozen until it is missed, so that it cannot be back before anybody looks.
            holder.freeze()
            await client.client_kill_filter(_id=await subscription_of(client, holder))
            await fleet.first("answered", answer="Held", suspect=True)
            holder.thaw()
            await holder.next("gap", confirmed=True)
            for waiter in waiters:
                for _ in range(UNTIL_LOOKED_AGAIN):
                    await waiter.next("answered", answer="Held", suspect=False)
    await holder.open(computation)
    assert {(await call.outcome()).value for call in calls} == {computation}
    assert fleet.journal.computations("k") == [computation]


async def test_waiters_whose_subscriptions_are_all_killed_are_served_all_the_same(own_fleet: Fleet) -> None:
    fleet = own_fleet
    workers = await fleet.start(4, lease_ttl=20.0)
    holder = workers[0]
    computation, calls = await holder_and_waiters(fleet, workers)
    async with redis.asyncio.Redis.from_url(fleet.url) as client:
        await client.client_kill_filter(_type="pubsub", skipme=True)
    # At once, so that its wake-up finds nobody listening.
    await holder.open(computation)
    assert {(await call.outcome()).value for call in calls} == {computation}
    assert fleet.journal.computations("k") == [computation]
