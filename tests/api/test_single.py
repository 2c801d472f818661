"""`async with guard.single(key) as entry`: one caller fleet-wide computes in its block, all others find the value."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from stampede_guard import ComputeTimeout, StampedeGuard, WaitTimeout
from stampede_guard.errors import Misuse, UnsupportedValue
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards, joined
from tests.support.heap import collect

KEY = "report:7"


async def block(guard: StampedeGuard, gate: Gate, value: Any, **fields: Any) -> tuple[bool, Any]:
    """Whether this caller was the one, and what it got."""
    async with guard.single(KEY, **fields) as entry:
        if not entry.missing:
            return False, entry.value
        await gate.hold()
        await entry.set(value)
        return True, entry.value


async def test_one_caller_fleet_wide_finds_it_missing_and_all_others_find_the_value(guards: Guards) -> None:
    gate = Gate()
    here, there = guards.guard(ttl=300), guards.guard(ttl=300)
    callers = [
        asyncio.create_task(block(guard, gate, [number])) for guard in (here, there) for number in (1, 2)
    ]
    await gate.arrival()
    await joined(here, guards.name(KEY), 2)
    await joined(there, guards.name(KEY), 2)
    gate.open()
    outcomes = await soon(asyncio.gather(*callers))
    assert sorted(was_missing for was_missing, _ in outcomes) == [False, False, False, True]
    assert len({tuple(value) for _, value in outcomes}) == 1
    assert gate.entered == 1
    assert await soon(block(there, gate, "not asked for")) == (False, outcomes[0][1])


@pytest.mark.parametrize("value", [None, False, 0, "", []])
async def test_what_counts_as_false_can_be_set_and_is_found(guards: Guards, value: Any) -> None:
    gate = Gate()
    gate.open()
    assert await soon(block(guards.guard(), gate, value)) == (True, value)
    assert await soon(block(guards.guard(), gate, "another")) == (False, value)


async def test_get_or_compute_of_the_same_key_is_the_same_entry(guards: Guards) -> None:
    async def compute() -> str:
        raise AssertionError("not reached")

    gate = Gate()
    gate.open()
    guard = guards.guard()
    await block(guard, gate, "value")
    assert await guard.get_or_compute(KEY, compute) == "value"
    assert await guard.invalidate(KEY) == "done"
    assert await soon(block(guard, gate, "newer")) == (True, "newer")


async def test_a_block_that_raises_shares_its_error_with_those_who_wait(guards: Guards) -> None:
    gate = Gate()
    here, there = guards.guard(), guards.guard()

    async def failing() -> None:
        async with here.single(KEY) as entry:
            assert entry.missing
            await gate.hold()
            raise LookupError("no such report")

    leader = asyncio.create_task(failing())
    await gate.arrival()
    same_process = asyncio.create_task(block(here, gate, 1))
    other_process = asyncio.create_task(block(there, gate, 1))
    await joined(here, guards.name(KEY), 2)
    await joined(there, guards.name(KEY), 1)
    await until(
        lambda: type(there.engine.runtime().flights[guards.name(KEY)].state.phase).__name__ == "Waiting"
    )
    gate.open()
    with pytest.raises(LookupError, match="no such report"):
        await soon(leader)
    with pytest.raises(LookupError, match="no such report"):
        await soon(same_process)
    with pytest.raises(LookupError, match="no such report"):
        await soon(other_process)
    assert gate.entered == 1


async def test_a_block_that_ends_without_a_value_hands_over_to_the_next_caller(guards: Guards) -> None:
    gate = Gate()
    here, there = guards.guard(), guards.guard()

    async def giving_up() -> None:
        async with here.single(KEY) as entry:
            assert entry.missing
            await gate.hold()

    leader = asyncio.create_task(giving_up())
    await gate.arrival()
    same_process = asyncio.create_task(block(here, gate, "second"))
    await joined(here, guards.name(KEY), 2)
    other_process = asyncio.create_task(block(there, gate, "second"))
    await joined(there, guards.name(KEY), 1)
    gate.open()
    await soon(leader)
    outcomes = await soon(asyncio.gather(same_process, other_process))
    assert sorted(outcomes) == [(False, "second"), (True, "second")]


async def test_a_cancelled_block_hands_over_to_the_next_caller(guards: Guards) -> None:
    gate = Gate()
    guard = guards.guard()
    leader = asyncio.create_task(block(guard, gate, "first"))
    await gate.arrival()
    passenger = asyncio.create_task(block(guard, gate, "second"))
    await joined(guard, guards.name(KEY), 2)
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    await gate.arrival()
    gate.open()
    assert await soon(passenger) == (True, "second")
    assert gate.cancelled == 1


async def test_a_caller_cancelled_while_it_waits_harms_nobody(guards: Guards) -> None:
    gate = Gate()
    guard = guards.guard()
    leader = asyncio.create_task(block(guard, gate, "first"))
    await gate.arrival()
    passengers = [asyncio.create_task(block(guard, gate, "second")) for _ in range(2)]
    await joined(guard, guards.name(KEY), 3)
    passengers[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await passengers[0]
    gate.open()
    assert await soon(leader) == (True, "first")
    assert await soon(passengers[1]) == (False, "first")


async def test_a_block_cancelled_after_set_has_stored_its_value(guards: Guards) -> None:
    gate = Gate()
    guard = guards.guard()

    async def set_and_linger() -> None:
        async with guard.single(KEY) as entry:
            await entry.set("stored")
            await gate.hold()

    leader = asyncio.create_task(set_and_linger())
    await gate.arrival()
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leader
    assert await soon(block(guard, gate, "another")) == (False, "stored")


async def test_a_value_is_set_once_and_only_by_the_caller_that_finds_it_missing(guards: Guards) -> None:
    guard = guards.guard()
    async with guard.single(KEY) as entry:
        assert entry.missing
        with pytest.raises(Misuse, match="not there yet"):
            _ = entry.value
        assert await entry.set((1, 2)) == (1, 2)
        assert not entry.missing
        assert entry.value == (1, 2)
        with pytest.raises(Misuse, match="once"):
            await entry.set((3, 4))
    async with guard.single(KEY) as entry:
        with pytest.raises(Misuse, match=r"finds entry\.missing"):
            await entry.set((3, 4))
        assert entry.value == (1, 2)


async def test_after_a_block_without_a_value_there_is_none_and_none_can_be_set(guards: Guards) -> None:
    async with guards.guard().single(KEY) as entry:
        assert entry.missing
    with pytest.raises(Misuse, match="has ended"):
        await soon(entry.set(1))
    with pytest.raises(Misuse, match="ended without"):
        _ = entry.value


async def test_an_entry_is_for_one_block(guards: Guards) -> None:
    single = guards.guard().single(KEY)
    with pytest.raises(Misuse, match=r"entry\.set"):
        await single.set(1)
    async with single as entry:
        await entry.set(1)
    with pytest.raises(Misuse, match="for one `async with`"):
        async with single:
            raise AssertionError("not reached")


async def test_if_strict_a_value_that_cannot_be_stored_is_the_error_of_set_and_of_those_who_wait(
    guards: Guards,
) -> None:
    guard, gate = guards.guard(error_ttl=0, strict=True), Gate()
    leader = asyncio.create_task(block(guard, gate, object()))
    await gate.arrival()
    passenger = asyncio.create_task(block(guard, gate, 1))
    await joined(guard, guards.name(KEY), 2)
    gate.open()
    for caller in (leader, passenger):
        with pytest.raises(UnsupportedValue, match="object"):
            await soon(caller)


async def test_the_value_is_of_the_declared_type_for_everybody(guards: Guards) -> None:
    async with guards.guard().single(KEY, type=dict[str, tuple[int, ...]]) as entry:
        await entry.set({"a": (1, 2)})
        assert entry.value == {"a": (1, 2)}
    async with guards.guard().single(KEY, type=dict[str, tuple[int, ...]]) as entry:
        assert entry.value == {"a": (1, 2)}


async def test_a_block_that_overruns_compute_timeout_hears_it_from_set(guards: Guards) -> None:
    guard = guards.guard(compute_timeout=0.05)
    async with guard.single(KEY) as entry:
        assert entry.missing
        await until(lambda: not guard.engine.runtime().flights)
        with pytest.raises(ComputeTimeout, match="compute_timeout"):
            await entry.set(1)


async def test_a_block_that_overruns_and_sets_nothing_leaves_no_forgotten_error(
    guards: Guards, caplog: pytest.LogCaptureFixture
) -> None:
    guard = guards.guard(compute_timeout=0.05, error_ttl=0)
    with caplog.at_level(logging.ERROR):
        async with guard.single(KEY) as entry:
            assert entry.missing
            await until(lambda: not guard.engine.runtime().flights)
        with pytest.raises(LookupError):
            async with guard.single(KEY) as entry:
                await until(lambda: not guard.engine.runtime().flights)
                raise LookupError
        del entry
    assert caplog.records == []


async def test_who_waits_too_long_for_somebody_elses_block_is_told_so(guards: Guards) -> None:
    gate = Gate()
    holder = guards.guard()
    waiter = guards.guard(wait_timeout=0.05, fallback_limit=0)
    leader = asyncio.create_task(block(holder, gate, 1))
    await gate.arrival()
    with pytest.raises(WaitTimeout):
        await soon(block(waiter, gate, 2))
    gate.open()
    await soon(leader)


async def test_with_a_fallback_a_second_block_computes_and_its_value_ends_the_wait(guards: Guards) -> None:
    slow, quick = Gate(), Gate()
    quick.open()
    holder, waiter = guards.guard(), guards.guard(wait_timeout=0.05)
    leader = asyncio.create_task(block(holder, slow, "late"))
    await slow.arrival()
    assert await soon(block(waiter, quick, "fallback")) == (True, "fallback")
    assert await soon(block(waiter, quick, "another")) == (False, "fallback")
    slow.open()
    assert await soon(leader) == (True, "late")
    # It began before the fallback did, so it may not take the place of its value.
    assert await soon(block(waiter, quick, "another")) == (False, "fallback")


@pytest.mark.parametrize("mode", ["off", "bypass"])
async def test_without_the_store_every_block_is_the_one(guards: Guards, mode: Any) -> None:
    gate = Gate()
    gate.open()
    guard = guards.guard(mode=mode)
    assert await soon(block(guard, gate, 1)) == (True, 1)
    assert await soon(block(guard, gate, 2)) == (True, 2)


async def test_nothing_is_left_of_blocks_however_they_end(guards: Guards) -> None:
    gate = Gate()
    gate.open()
    guard = guards.guard(error_ttl=0)
    await block(guard, gate, 1)
    await guard.invalidate(KEY)
    for error in (LookupError, StopIteration, asyncio.CancelledError):
        with pytest.raises((error, RuntimeError)):
            async with guard.single(KEY):
                raise error
    async with guard.single(KEY):
        pass
    await until(lambda: not guard.engine.runtime().flights)
    assert await guards.lease_holder(guards.name(KEY)) == ""


async def test_the_error_of_a_block_whose_caller_is_cancelled_at_its_end_is_not_reported() -> None:
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
    guard, gate = StampedeGuard(MemoryStore()), Gate()

    async def failing() -> None:
        async with guard.single(KEY):
            await gate.hold()
            raise LookupError("no such report")

    leader = asyncio.create_task(failing())
    await gate.arrival()
    call = next(task for task in asyncio.all_tasks() if task.get_name() == "stampede_guard single")
    gate.open()
    await asyncio.sleep(0)
    assert not call.done()
    leader.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(leader)
    await asyncio.wait({call})
    del call
    collect()
    assert reports == []
    await guard.aclose()
