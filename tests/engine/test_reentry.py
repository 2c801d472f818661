"""A computation that would wait for itself is an error at once, not a deadlock until some time-out."""

from __future__ import annotations

import asyncio

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.api.types import CachedFunction
from stampede_guard.errors import ReentrantCall
from stampede_guard.policy import Mode, Policy
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import Gate, soon, until

# Long, so that a circle which is not seen is a test that fails and not one that waits its way out.
PATIENT = Policy(ttl=300, wait_timeout=3600, compute_timeout=3600, error_ttl=0)


@pytest.fixture
def guard() -> StampedeGuard:
    return StampedeGuard(MemoryStore(), namespace="t", policy=PATIENT)


@pytest.mark.parametrize("mode", ["on", "bypass"])
async def test_a_computation_that_calls_itself_with_the_same_key_is_told_so(
    guard: StampedeGuard, mode: Mode
) -> None:
    guard.mode = mode

    @guard.locked_cache(name="total")
    async def total(project: int) -> int:
        return 1 + await total(project)

    with pytest.raises(
        ReentrantCall, match=r"total is called with the same key inside .* wait for itself.*__wrapped__"
    ):
        await soon(total(7))
    assert guard.engine.runtime().flights == {}


async def test_other_keys_of_the_same_function_may_be_called(guard: StampedeGuard) -> None:
    @guard.locked_cache()
    async def fibonacci(n: int) -> int:
        return n if n < 2 else await fibonacci(n - 1) + await fibonacci(n - 2)

    assert await soon(fibonacci(30)) == 832_040


async def test_a_circle_of_two_functions_is_found(guard: StampedeGuard) -> None:
    @guard.locked_cache()
    async def chicken(n: int) -> int:
        return await egg(n)

    @guard.locked_cache()
    async def egg(n: int) -> int:
        return await chicken(n)

    with pytest.raises(ReentrantCall):
        await soon(chicken(1))
    with pytest.raises(ReentrantCall):
        await soon(egg(1))


async def test_a_circle_whose_parts_began_at_the_same_time_is_found(guard: StampedeGuard) -> None:
    """Each is computing before it asks for the other, so neither is a call from within the other."""
    gate = Gate()

    @guard.locked_cache()
    async def one(n: int) -> int:
        await gate.hold()
        return await two(n)

    @guard.locked_cache()
    async def two(n: int) -> int:
        await gate.hold()
        return await three(n)

    @guard.locked_cache()
    async def three(n: int) -> int:
        await gate.hold()
        return await one(n)

    callers = [asyncio.create_task(function(1)) for function in (one, two, three)]
    for _ in callers:
        await gate.arrival()
    gate.open()
    outcomes = await soon(asyncio.gather(*callers, return_exceptions=True))
    assert [type(outcome) for outcome in outcomes] == [ReentrantCall] * 3
    assert gate.entered == 3


async def test_a_circle_through_refresh_is_found(guard: StampedeGuard) -> None:
    gate = Gate()

    @guard.locked_cache()
    async def one() -> int:
        await gate.hold()
        return await two.refresh()

    @guard.locked_cache()
    async def two() -> int:
        await gate.hold()
        return await one()

    callers = [asyncio.create_task(one()), asyncio.create_task(two())]
    for _ in callers:
        await gate.arrival()
    gate.open()
    outcomes = await soon(asyncio.gather(*callers, return_exceptions=True))
    assert ReentrantCall in map(type, outcomes)


async def test_two_that_wait_for_the_same_third_are_no_circle(guard: StampedeGuard) -> None:
    gate = Gate()

    @guard.locked_cache()
    async def left() -> int:
        return await bottom() + 1

    @guard.locked_cache()
    async def right() -> int:
        return await bottom() + await left()

    @guard.locked_cache()
    async def bottom() -> int:
        await gate.hold()
        return 1

    callers = asyncio.gather(left(), right(), right())
    await gate.arrival()
    gate.open()
    assert await soon(callers) == [2, 3, 3]
    assert gate.entered == 1


async def test_a_circle_through_tasks_of_the_computation_is_found(guard: StampedeGuard) -> None:
    @guard.locked_cache()
    async def total() -> int:
        parts = await asyncio.gather(*[asyncio.create_task(total()) for _ in range(2)])
        return sum(parts)

    with pytest.raises(ReentrantCall):
        await soon(total())


async def test_a_block_that_asks_for_its_own_entry_is_told_so(guard: StampedeGuard) -> None:
    async def compute() -> int:
        return 1

    async with guard.single("report:7") as entry:
        assert entry.missing
        with pytest.raises(ReentrantCall):
            await soon(guard.get_or_compute("report:7", compute))
        with pytest.raises(ReentrantCall):
            async with guard.single("report:7"):
                raise AssertionError("not reached")
        assert await guard.get_or_compute("report:8", compute) == 1
        await entry.set(2)
        assert await guard.get_or_compute("report:7", compute) == 2
    assert await guard.get_or_compute("report:7", compute) == 2


async def test_after_a_block_its_entry_is_one_like_any_other(guard: StampedeGuard) -> None:
    async def compute() -> int:
        return 1

    async with guard.single("report:7") as entry:
        await entry.set(2)
    await guard.invalidate("report:7")
    assert await soon(guard.get_or_compute("report:7", compute)) == 1


async def test_a_circle_of_a_block_and_a_function_is_found(guard: StampedeGuard) -> None:
    inner: CachedFunction[[], int]

    @guard.locked_cache()
    async def inner() -> int:
        async with guard.single("report:7") as entry:
            raise AssertionError(f"not reached: {entry.missing}")

    async with guard.single("report:7") as entry:
        with pytest.raises(ReentrantCall):
            await soon(inner())
        await entry.set(1)


async def test_a_fallback_that_calls_itself_is_told_so() -> None:
    store, gate = MemoryStore(), Gate()
    holder = StampedeGuard(store, namespace="t", policy=PATIENT)
    policy = PATIENT.replace(wait_timeout=0.001, fallback_timeout=3600)
    waiter = StampedeGuard(store, namespace="t", policy=policy)

    async def slow() -> int:
        await gate.hold()
        return 1

    seen: list[BaseException] = []

    async def recursive() -> int:
        try:
            return await waiter.get_or_compute("k", recursive)
        except ReentrantCall as error:
            seen.append(error)
            return 2

    holding = asyncio.create_task(holder.get_or_compute("k", slow))
    await gate.arrival()
    assert await soon(waiter.get_or_compute("k", recursive)) == 2
    assert len(seen) == 1
    gate.open()
    await soon(holding)
    await waiter.aclose()
    await holder.aclose()


async def test_a_task_that_outlives_the_computation_that_started_it_may_call_it(guard: StampedeGuard) -> None:
    gate = Gate()
    started: list[asyncio.Task[int]] = []

    async def later() -> int:
        await gate.hold()
        return await total()

    @guard.locked_cache()
    async def total() -> int:
        if not started:
            started.append(asyncio.create_task(later()))
        return len(started)

    assert await total() == 1
    await until(lambda: not guard.engine.runtime().flights)
    await total.invalidate()
    gate.open()
    assert await soon(started[0]) == 1
