"""A flag that is raised once."""

from __future__ import annotations

import asyncio

from stampede_guard.leases.keeping.signal import Signal


async def test_who_awaits_it_who_looks_and_who_waits_in_a_thread_all_hear_the_first_reason() -> None:
    signal = Signal()
    assert not signal and not signal.is_set() and not await asyncio.to_thread(signal.wait, 0)
    waiting = [asyncio.ensure_future(_reason(signal)) for _ in range(2)]
    thread = asyncio.create_task(asyncio.to_thread(signal.wait, 60))
    await asyncio.sleep(0)
    # One who gives up takes the others nothing.
    waiting[0].cancel()
    await asyncio.wait({waiting[0]})
    signal.raise_it("first")
    signal.raise_it("second")
    assert await waiting[1] == await signal == signal.why == "first"
    assert signal and await thread


async def _reason(signal: Signal) -> object:
    return await signal


async def test_what_is_to_follow_follows_once_in_order_and_at_once_when_it_was_raised_before() -> None:
    signal, called = Signal(), list[int]()
    signal.then(lambda: called.append(1))
    signal.then(lambda: called.append(2))
    assert called == []
    signal.raise_it("")
    signal.raise_it("")
    assert called == [1, 2]
    signal.then(lambda: called.append(3))
    assert called == [1, 2, 3]
