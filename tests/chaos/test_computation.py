"""What happens to the callers of all processes when the computation itself goes wrong, or is overtaken."""

from __future__ import annotations

import asyncio

import redis.asyncio

from tests.chaos.fleet import Fleet, Worker


async def ttl_of(fleet: Fleet, part: str) -> float:
    """Seconds that a key of the entry `k` has left."""
    async with redis.asyncio.Redis.from_url(fleet.url) as client:
        return float(await client.pttl(f"{{{fleet.namespace}:=k}}:{part}")) / 1000


async def drop(fleet: Fleet, part: str) -> None:
    async with redis.asyncio.Redis.from_url(fleet.url) as client:
        await client.delete(f"{{{fleet.namespace}:=k}}:{part}")


async def all_waiting(workers: list[Worker]) -> None:
    for worker in workers:
        await worker.next("answered", answer="Held")


async def test_an_error_is_everybodys_and_for_error_ttl_nobody_tries_again(fleet: Fleet) -> None:
    workers = await fleet.start(4, error_ttl=30.0)
    calls = [await worker.call("k", "raise", callers=20) for worker in workers]
    outcomes = [await call.outcome() for call in calls]
    (failed,) = fleet.journal.computations("k")
    for outcome in outcomes:
        assert not outcome.values
        assert list(outcome.errors) == [f"TaskFailed: {failed} failed"]
    assert 0 < await ttl_of(fleet, "e") <= 30.0
    again = [await (await worker.call("k", "raise")).outcome() for worker in workers]
    assert {next(iter(outcome.errors)) for outcome in again} == {f"TaskFailed: {failed} failed"}
    assert fleet.journal.computations("k") == [failed]
    # What the end of error_ttl does.
    await drop(fleet, "e")
    values = [
        (await (await worker.call("k", {"kind": "sleep", "seconds": 0.0})).outcome()).value
        for worker in workers
    ]
    assert len(set(values)) == 1 and fleet.journal.computations("k") == [failed, values[0]]


async def test_a_computation_that_hangs_ends_by_its_deadline_for_the_callers_of_all_processes(
    fleet: Fleet,
) -> None:
    workers = await fleet.start(3, compute_timeout=1.0, error_ttl=30.0)
    calls = [await workers[0].call("k", "hang", callers=20)]
    hung = (await workers[0].next("started"))["computation"]
    calls += [await worker.call("k", "hang", callers=20) for worker in workers[1:]]
    await workers[0].next("cancelled", computation=hung)
    for call in calls:
        outcome = await call.outcome()
        assert not outcome.values
        assert all(error.startswith("ComputeTimeout: ") for error in outcome.errors)
    assert fleet.journal.computations("k") == [hung]
    # The lease is free: when error_ttl is over the next one computes at once.
    await drop(fleet, "e")
    call = await workers[1].call("k", {"kind": "sleep", "seconds": 0.0})
    assert (await call.outcome()).value == fleet.journal.computations("k")[1]


async def test_a_computation_that_ignores_its_cancellation_is_left_alone_and_counted(fleet: Fleet) -> None:
    workers = await fleet.start(2, compute_timeout=1.0, error_ttl=0.0)
    call = await workers[0].call("k", "deaf", callers=20)
    deaf = (await workers[0].next("started"))["computation"]
    outcome = await call.outcome()
    assert not outcome.values and all(error.startswith("ComputeTimeout: ") for error in outcome.errors)
    assert (await workers[0].status())["abandoned"] == 1
    value = (await (await workers[1].call("k", {"kind": "sleep", "seconds": 0.0})).outcome()).value
    await workers[0].open(deaf)
    await workers[0].next("ended", computation=deaf)
    assert (await workers[0].status())["abandoned"] == 0
    assert (await (await workers[0].call("k")).outcome()).value == value


async def test_who_joins_after_an_invalidation_gets_what_was_computed_after_it(fleet: Fleet) -> None:
    # No bounded wait may come between: everybody waits for what is computed.
    workers = await fleet.start(3, wait_timeout=90.0)
    holder, waiter, bystander = workers
    early = [await holder.call("k", callers=5)]
    old = (await holder.next("started"))["computation"]
    early.append(await waiter.call("k", callers=5))
    await all_waiting([waiter])
    assert await bystander.invalidate("k") == "done"
    late = [await worker.call("k", callers=5) for worker in workers]
    await all_waiting([bystander])
    await holder.open(old)
    heir, started = await fleet.first("started")
    new = started["computation"]
    await heir.open(new)
    assert {(await call.outcome()).value for call in late} == {new}
    assert (await early[0].outcome()).value in (old, new)
    assert (await early[1].outcome()).value in (old, new)
    assert fleet.journal.computations("k") == [old, new]
    stored = [(await (await worker.call("k")).outcome()).value for worker in workers]
    assert set(stored) == {new}


async def test_a_storm_of_invalidations_is_no_stampede(fleet: Fleet) -> None:
    workers = await fleet.start(3, wait_timeout=90.0)
    holder, *others = workers
    calls = [await holder.call("k", callers=5)]
    old = (await holder.next("started"))["computation"]
    calls += [await worker.call("k", callers=5) for worker in others]
    await all_waiting(others)
    for _ in range(20):
        assert {await worker.invalidate("k") for worker in others} == {"done"}
        calls += [await worker.call("k") for worker in workers]
    assert fleet.journal.computations("k") == [old]
    await holder.open(old)
    heir, started = await fleet.first("started")
    await heir.open(started["computation"])
    served = await asyncio.gather(*(call.outcome() for call in calls))
    assert {outcome.value for outcome in served[3:]} == {started["computation"]}
    assert fleet.journal.computations("k") == [old, started["computation"]]
