"""The real clock and its timers."""

from __future__ import annotations

import asyncio
import sys
import time

import pytest

from stampede_guard.errors import LeaseLost
from stampede_guard.leases import MemoryLeases
from stampede_guard.leases.keeping import world


async def test_who_was_suspended_with_the_machine_is_told_soon_after_it_woke(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    slept, clock = 0.0, world._clock
    # The event loop's clock stands still while the machine sleeps; ours does not.
    monkeypatch.setattr(world, "_clock", lambda: clock() + slept)
    leases = MemoryLeases()
    with pytest.raises(LeaseLost, match="could not be renewed"):
        async with asyncio.timeout(10), leases.hold("n", 60):
            slept = 3_600.0
            await asyncio.sleep(60)
    await leases.aclose()


@pytest.mark.parametrize(("platform", "clocks"), [("linux", [7]), ("darwin", [6]), ("win32", [])])
def test_the_clock_is_one_that_goes_on_while_the_machine_sleeps_where_there_is_one(
    monkeypatch: pytest.MonkeyPatch, platform: str, clocks: list[int]
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(time, "CLOCK_MONOTONIC", 6, raising=False)
    if platform == "linux":
        monkeypatch.setattr(time, "CLOCK_BOOTTIME", 7, raising=False)
    else:
        monkeypatch.delattr(time, "CLOCK_BOOTTIME", raising=False)
    monkeypatch.setattr(time, "clock_gettime", asked.append, raising=False)
    world._going_on()()
    assert asked == clocks


async def test_a_timer_that_was_taken_back_never_calls() -> None:
    here = world.SystemWorld()
    called: list[str] = []
    done = asyncio.Event()
    # The second is set anew in between.
    for seconds in (0.0, 1.5 * world.LONGEST_TIMER):
        here.later(seconds, lambda seconds=seconds: called.append(f"never {seconds}"))()  # type: ignore[misc]
    long = here.later(1.5 * world.LONGEST_TIMER, lambda: called.append("never, later"))
    here.later(1.2 * world.LONGEST_TIMER, long)
    begun = here.now()
    here.later(1.7 * world.LONGEST_TIMER, done.set)
    await asyncio.wait_for(done.wait(), 60)
    assert not called and here.now() - begun >= 1.7 * world.LONGEST_TIMER
