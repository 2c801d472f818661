"""The end of a guard that does not go as planned: a time-out round it, a store that no longer answers."""

from __future__ import annotations

import asyncio
import logging
import threading
from typing import Any

import pytest

from stampede_guard import StampedeGuard
from stampede_guard.engine.threads.portal import portal, portal_loop
from stampede_guard.errors import StoreUnavailable, WaitTimeout
from stampede_guard.policy import Limits
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards, ours
from tests.support.inside import runtimes_of


@pytest.mark.parametrize("times", [1, 2])
async def test_closing_that_is_cancelled_does_not_wait_for_computations_but_leaves_nothing_behind(
    guards: Guards, times: int
) -> None:
    gate = Gate()

    async def compute() -> str:
        await gate.hold()
        return "value"

    guard = guards.guard(drain_timeout=3600)
    caller = asyncio.create_task(guard.get_or_compute("k", compute))
    await gate.arrival()
    runtime = guard.engine.runtime()
    closing = asyncio.create_task(guard.aclose())
    await until(lambda: runtime.closing)
    # As a cancelled scope does, which cancels again whoever waits again.
    for _ in range(times):
        closing.cancel()
        await asyncio.sleep(0)
    with pytest.raises(asyncio.CancelledError):
        await soon(closing)
    await until(lambda: not ours())
    assert gate.cancelled == 1
    assert await guards.lease_holder(guards.name("k")) == ""
    with pytest.raises(WaitTimeout):
        await soon(caller)


async def test_closing_gives_all_leases_back_at_once() -> None:
    """A store that does not answer would otherwise take its deadline as many times as there are flights."""
    gate, asked = Gate(), asyncio.Barrier(3)

    async def compute() -> str:
        await gate.hold()
        return "value"

    guard = StampedeGuard(MemoryStore(), limits=Limits(drain_timeout=0))
    callers = [asyncio.create_task(guard.get_or_compute(f"k:{i}", compute)) for i in range(3)]
    for _ in callers:
        await gate.arrival()
    session: Any = guard.engine.runtime().session
    given_back = []

    async def release(name: str, *, flight: str) -> bool:
        await asked.wait()
        given_back.append(name)
        return True

    session.release = release
    await soon(guard.aclose())
    assert len(given_back) == 3
    assert all(
        isinstance(error, WaitTimeout) for error in await asyncio.gather(*callers, return_exceptions=True)
    )


async def test_closing_that_is_cancelled_leaves_the_part_of_plain_functions_to_close_by_itself(
    caplog: pytest.LogCaptureFixture,
) -> None:
    guard = StampedeGuard(MemoryStore(), limits=Limits(drain_timeout=3600))
    begun, go_on = threading.Event(), threading.Event()

    @guard.locked_cache(ttl=60)
    def number() -> int:
        begun.set()
        go_on.wait()
        return 7

    call = asyncio.create_task(asyncio.to_thread(number))
    await soon(asyncio.to_thread(begun.wait))
    part = runtimes_of(guard).get(portal_loop())
    assert part is not None
    closing = asyncio.create_task(guard.aclose())
    await until(lambda: part.closing)
    closing.cancel()
    await soon(asyncio.wait({closing}))
    go_on.set()
    assert await soon(call) == 7
    end = part._end
    assert end is not None
    await until(end.done)
    await asyncio.to_thread(portal().call, asyncio.sleep, 0)
    assert closing.cancelled() and not caplog.records


async def test_an_invalidation_that_failed_a_moment_ago_is_applied_before_the_end(guards: Guards) -> None:
    async def compute() -> str:
        return "before"

    guard, other = guards.guard(), guards.guard()
    await guard.get_or_compute("k", compute)
    session, failures = guard.engine.runtime().session, 3
    invalidate = session.invalidate

    async def shaky(*args: Any, **kwargs: Any) -> int:
        nonlocal failures
        failures -= 1
        if failures >= 0:
            raise StoreUnavailable("no answer")
        return await invalidate(*args, **kwargs)

    session.invalidate = shaky  # type: ignore[method-assign]
    assert await guard.invalidate("k") == "pending"
    await soon(guard.aclose())
    assert await other.engine.runtime().session.read(guards.name("k")) is None


async def test_an_invalidation_that_the_end_overtakes_is_no_secret(
    guards: Guards, caplog: pytest.LogCaptureFixture
) -> None:
    guard, gate = guards.guard(), Gate()

    async def cut_off(*args: Any, **kwargs: Any) -> int:
        await gate.hold()
        raise StoreUnavailable("the session was closed")

    guard.engine.runtime().session.invalidate = cut_off  # type: ignore[method-assign]
    invalidation = asyncio.create_task(guard.invalidate("k"))
    await gate.arrival()
    await soon(guard.aclose())
    gate.open()
    with caplog.at_level(logging.ERROR, "stampede_guard"):
        assert await soon(invalidation) == "pending"
    assert "could not be applied" in caplog.text
