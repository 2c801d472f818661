"""on, bypass and off: per function, per guard, by the environment and for a block; switched while flights are open."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis.asyncio

from stampede_guard import PolicyError, StampedeGuard, WaitTimeout
from stampede_guard.engine.modes import modes
from stampede_guard.engine.plan import Standing
from stampede_guard.policy import Mode
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards, joined
from tests.support.inside import runtimes_of
from tests.support.source import Counted


async def entries(guards: Guards) -> int:
    """How many things the store keeps for these guards."""
    if guards.memory is not None:
        return len(guards.memory)
    async with redis.asyncio.Redis.from_url(guards.url) as client:
        return len([key async for key in client.scan_iter(f"{{{guards.namespace}:*")])


# --- what each mode does --------------------------------------------------------------------------------


async def test_bypass_keeps_one_flight_per_key_and_process_and_asks_no_store(guards: Guards) -> None:
    gate = Gate()

    async def compute() -> str:
        await gate.hold()
        return "value"

    here, there = guards.guard(mode="bypass"), guards.guard(mode="bypass")
    callers = [asyncio.create_task(guard.get_or_compute("k", compute)) for guard in (here, there) * 10]
    await gate.arrival()
    await gate.arrival()
    gate.open()
    assert await soon(asyncio.gather(*callers)) == ["value"] * 20
    assert gate.entered == 2
    assert await here.get_or_compute("k", compute) == "value"
    assert gate.entered == 3, "nothing was stored"
    assert await entries(guards) == 0


async def test_bypass_never_asks_for_a_connection(unused_tcp_port: int) -> None:
    gate, count = Gate(), Counted()

    async def slow() -> str:
        await gate.hold()
        return "value"

    async with StampedeGuard.from_url(f"redis://127.0.0.1:{unused_tcp_port}") as guard:
        guard.mode = "bypass"
        assert await guard.get_or_compute("k", count) == 1
        leader = asyncio.create_task(guard.get_or_compute("slow", slow))
        await gate.arrival()
        with pytest.raises(WaitTimeout):
            await soon(guard.get_or_compute("slow", slow, wait_timeout=0.05))
        gate.open()
        await soon(leader)
        session: Any = guard.engine.runtime().session
        assert session._lane._writer is None


async def test_a_caller_in_bypass_that_waits_too_long_is_told_so_without_asking_the_store(
    guards: Guards,
) -> None:
    gate = Gate()
    guard = guards.guard(mode="bypass")

    async def compute() -> str:
        await gate.hold()
        return "value"

    leader = asyncio.create_task(guard.get_or_compute("k", compute))
    await gate.arrival()
    with pytest.raises(WaitTimeout):
        await soon(guard.get_or_compute("k", compute, wait_timeout=0.05))
    assert gate.entered == 1, "no fallback either: its slot would be the store's"
    assert await entries(guards) == 0
    gate.open()
    await soon(leader)


async def test_off_is_a_plain_function(guards: Guards) -> None:
    guard, count = guards.guard(mode="off"), Counted()
    callers = [guard.get_or_compute("k", count) for _ in range(5)]
    assert sorted(await asyncio.gather(*callers)) == [1, 2, 3, 4, 5]
    assert await entries(guards) == 0
    assert runtimes_of(guard) == {}


@pytest.mark.parametrize("mode", ["bypass", "off"])
async def test_refresh_obeys_the_mode(guards: Guards, mode: Mode) -> None:
    count = Counted()

    @guards.guard(mode=mode).locked_cache()
    async def quality(project: int) -> int:
        return await count()

    assert [await quality.refresh(7), await quality.refresh(7), await quality(7)] == [1, 2, 3]
    assert await entries(guards) == 0


@pytest.mark.parametrize("mode", ["on", "bypass", "off"])
async def test_invalidation_reaches_the_store_in_every_mode(guards: Guards, mode: Mode) -> None:
    """What is stored is served again when the mode is `on` again, and other processes may be on all the time."""
    count = Counted()
    here, there = guards.guard(), guards.guard()
    assert await here.get_or_compute("k", count) == 1
    here.mode = mode
    assert await here.invalidate("k") == "done"
    here.mode = "on"
    assert await there.get_or_compute("k", count) == 2
    assert await here.get_or_compute("k", count) == 2


async def test_a_flight_in_bypass_that_an_invalidation_overtakes_serves_nobody_who_came_after_it(
    guards: Guards,
) -> None:
    gate = Gate()
    guard = guards.guard(mode="bypass")
    source = "before"

    async def compute() -> str:
        read = source
        await gate.hold()
        return read

    early = asyncio.create_task(guard.get_or_compute("k", compute))
    await gate.arrival()
    source = "after"
    await guard.invalidate("k")
    late = asyncio.create_task(guard.get_or_compute("k", compute))
    (flight,) = guard.engine.runtime().flights.values()
    await until(lambda: flight.joined == 2)
    gate.open()
    assert await soon(early) == "before"
    assert await soon(late) == "after"


# --- where it is set --------------------------------------------------------------------------------------


async def test_a_functions_own_mode_comes_before_its_guards(guards: Guards) -> None:
    guard, count = guards.guard(), Counted()

    @guard.locked_cache()
    async def quality(project: int) -> int:
        return await count()

    quality.set_mode("off")
    assert [await quality(7), await quality(7)] == [1, 2]
    quality.set_mode(None)
    assert [await quality(7), await quality(7)] == [3, 3]
    guard.mode = "off"
    assert await quality(7) == 4
    quality.set_mode("on")
    assert await quality(7) == 3
    guard.mode = None
    assert await quality(7) == 3


async def test_a_mode_that_is_set_while_another_thread_looks_it_up_is_not_lost(
    guards: Guards, monkeypatch: pytest.MonkeyPatch
) -> None:
    guard = guards.guard()

    @guard.locked_cache()
    async def one() -> int:
        return 1

    def set_meanwhile(*args: Any, **fields: Any) -> Standing:
        monkeypatch.setattr(modes, "Standing", Standing)
        one.set_mode("bypass")
        return Standing(*args, **fields)

    monkeypatch.setattr(modes, "Standing", set_meanwhile)
    await one()
    runtime = guard.engine.runtime()
    runtime.session.read = pytest.fail  # type: ignore[method-assign,assignment]
    runtime.read = pytest.fail  # type: ignore[assignment]
    assert await one() == 1


async def test_a_mode_can_be_part_of_the_policy_of_a_function(guards: Guards) -> None:
    guard, count = guards.guard(), Counted()

    @guard.locked_cache(mode="off")
    async def quality(project: int) -> int:
        return await count()

    assert [await quality(7), await quality(7)] == [1, 2]
    guard.mode = "on"
    assert [await quality(7), await quality(7)] == [3, 3]


@pytest.mark.parametrize(("mode", "runs"), [("on", 1), ("bypass", 2), ("off", 2)])
async def test_the_environment_sets_the_mode_of_guards_made_under_it(
    guards: Guards, monkeypatch: pytest.MonkeyPatch, mode: str, runs: int
) -> None:
    monkeypatch.setenv("STAMPEDE_GUARD_MODE", mode)
    guard, count = guards.guard(mode="off"), Counted()
    assert guard.mode == mode
    await guard.get_or_compute("k", count)
    await guard.get_or_compute("k", count)
    assert count.runs == runs


def test_a_mode_that_does_not_exist_is_refused_wherever_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    guard = StampedeGuard(MemoryStore())

    @guard.locked_cache()
    async def quality() -> int:
        return 1

    wrong: Any = "sometimes"
    with pytest.raises(PolicyError, match="one of on, shadow, bypass, off"):
        guard.mode = wrong
    with pytest.raises(PolicyError, match="one of on, shadow, bypass, off"):
        quality.set_mode(wrong)
    monkeypatch.setenv("STAMPEDE_GUARD_MODE", "sometimes")
    with pytest.raises(
        PolicyError, match=r"\$STAMPEDE_GUARD_MODE='sometimes' .* one of on, shadow, bypass, off"
    ):
        StampedeGuard(MemoryStore())


# --- a block ------------------------------------------------------------------------------------------------


async def test_a_bypassed_block_is_for_the_task_that_is_in_it(guards: Guards) -> None:
    guard, count = guards.guard(), Counted()
    inside = asyncio.Event()

    async def other() -> int:
        await inside.wait()
        return await guard.get_or_compute("k", count)

    assert await guard.get_or_compute("k", count) == 1
    elsewhere = asyncio.create_task(other())
    with guard.bypassed():
        inside.set()
        assert await guard.get_or_compute("k", count) == 2
        assert await soon(elsewhere) == 1
    assert await guard.get_or_compute("k", count) == 1


async def test_a_bypassed_block_holds_for_what_its_calls_call_in_turn(guards: Guards) -> None:
    guard, count = guards.guard(), Counted()

    @guard.locked_cache()
    async def inner() -> int:
        return await count()

    @guard.locked_cache()
    async def outer() -> int:
        return await inner()

    with guard.bypassed():
        assert [await outer(), await outer()] == [1, 2]
        assert await outer.refresh() == 3
    assert await entries(guards) == 0


async def test_a_bypassed_block_is_for_its_own_guard(guards: Guards) -> None:
    one, other, count = guards.guard(), guards.guard(), Counted()
    with one.bypassed():
        assert [await other.get_or_compute("k", count), await other.get_or_compute("k", count)] == [1, 1]
        with other.bypassed():
            assert [await one.get_or_compute("k", count), await other.get_or_compute("k", count)] == [2, 3]
        assert await other.get_or_compute("k", count) == 1
        assert await one.get_or_compute("k", count) == 4


async def test_what_is_off_stays_off_in_a_bypassed_block(guards: Guards) -> None:
    guard, count = guards.guard(mode="off"), Counted()
    with guard.bypassed():
        await asyncio.gather(*[guard.get_or_compute("k", count) for _ in range(3)])
    assert count.runs == 3


# --- while flights are open ---------------------------------------------------------------------------------


async def test_the_kill_switch_does_not_wait_for_a_flight_that_waits_for_the_store(guards: Guards) -> None:
    gate = Gate()
    holder, guard = guards.guard(), guards.guard()

    async def slow() -> str:
        await gate.hold()
        return "stored"

    async def quick() -> str:
        return "own"

    holding = asyncio.create_task(holder.get_or_compute("k", slow))
    await gate.arrival()
    waiting = asyncio.create_task(guard.get_or_compute("k", slow))
    await joined(guard, guards.name("k"), 1)
    guard.mode = "bypass"
    assert await soon(guard.get_or_compute("k", quick)) == "own"
    assert not waiting.done()
    gate.open()
    assert await soon(waiting) == await soon(holding) == "stored"
    assert gate.entered == 1


async def test_a_caller_in_mode_on_does_not_ride_on_a_flight_that_knows_of_no_invalidation(
    guards: Guards,
) -> None:
    gate = Gate()
    here, there = guards.guard(mode="bypass"), guards.guard()
    source = "before"

    async def slow() -> str:
        read = source
        await gate.hold()
        return read

    async def quick() -> str:
        return source

    early = asyncio.create_task(here.get_or_compute("k", slow))
    await gate.arrival()
    source = "after"
    await there.invalidate("k")
    here.mode = "on"
    assert await soon(here.get_or_compute("k", quick)) == "after"
    gate.open()
    assert await soon(early) == "before"
    assert await there.get_or_compute("k", slow) == "after", "what was computed in bypass was not stored"


@pytest.mark.parametrize("mode", ["bypass", "off"])
async def test_a_flight_in_mode_on_ends_as_it_began_when_the_mode_is_switched(
    guards: Guards, mode: Mode
) -> None:
    gate, count = Gate(), Counted()
    here, there = guards.guard(), guards.guard()

    async def slow() -> str:
        await gate.hold()
        return "value"

    callers = [asyncio.create_task(here.get_or_compute("k", slow)) for _ in range(3)]
    await gate.arrival()
    await joined(here, guards.name("k"), 3)
    here.mode = mode
    assert await soon(here.get_or_compute("k", count)) == 1
    gate.open()
    assert await soon(asyncio.gather(*callers)) == ["value"] * 3
    assert await there.get_or_compute("k", count) == "value", "stored, for those who are on"
    here.mode = "on"
    assert await here.get_or_compute("k", count) == "value"
