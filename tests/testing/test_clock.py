from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from stampede_guard import Misuse, StampedeGuard
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing import FakeClock


async def test_an_entry_expires_when_the_clock_is_advanced_past_its_ttl() -> None:
    clock, computed = FakeClock(), 0

    async def compute() -> int:
        nonlocal computed
        computed += 1
        return computed

    async with StampedeGuard(MemoryStore(clock=clock)) as guard:
        assert await guard.get_or_compute("report", compute, ttl=300) == 1
        clock.advance(299)
        assert await guard.get_or_compute("report", compute, ttl=300) == 1
        clock.advance(1)
        assert await guard.get_or_compute("report", compute, ttl=300) == 2


def test_it_stands_still_by_itself() -> None:
    clock = FakeClock(5)
    assert clock() == clock() == 5
    clock.advance(0.5)
    assert clock() == 5.5


@pytest.mark.parametrize("seconds", [-1, math.nan, "1", None, True], ids=repr)
def test_it_goes_forward_only(seconds: Any) -> None:
    with pytest.raises(Misuse, match="give the time that passes in seconds, 0 or more"):
        FakeClock().advance(seconds)


async def test_sleepers_wake_when_their_time_has_come_and_no_others() -> None:
    clock, woken = FakeClock(), []

    async def sleep(seconds: float) -> None:
        await clock.sleep(seconds)
        woken.append(seconds)

    tasks = [asyncio.create_task(sleep(seconds)) for seconds in (0, 1, 2, 3)]
    await asyncio.wait({tasks[0]})
    clock.advance(2)
    await asyncio.wait(set(tasks[:3]))
    assert sorted(woken) == [0, 1, 2]
    tasks[3].cancel()
    await asyncio.wait({tasks[3]})
    clock.advance(5)
    assert len(woken) == 3


def test_a_sleeper_whose_loop_was_closed_disturbs_nobody() -> None:
    clock, loop = FakeClock(), asyncio.new_event_loop()
    task = loop.create_task(clock.sleep(1))
    loop.call_soon(loop.stop)
    loop.run_forever()
    loop.close()
    clock.advance(1)
    assert not task.done()
    task._log_destroy_pending = False  # type: ignore[attr-defined]
