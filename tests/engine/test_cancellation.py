"""Callers that are cancelled more than once: what they use is closed after its last use, and not before."""

from __future__ import annotations

import asyncio

import pytest

from stampede_guard import StampedeGuard, WaitTimeout
from stampede_guard.engine.flights.computation import Computation
from stampede_guard.engine.tasks import ended
from stampede_guard.policy import Policy
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import Gate, soon

KEY = "report:7"


class Unwinding:
    """A computation that, once cancelled, takes until `rolled_back` to end; and its request, which notes the order."""

    def __init__(self) -> None:
        self.gate = Gate()
        self.rolled_back = asyncio.Event()
        self.log: list[str] = []

    async def compute(self) -> str:
        try:
            await self.gate.hold()
        finally:
            await self.rolled_back.wait()
            self.log.append("computation ended")
        return "value"

    async def request(self, guard: StampedeGuard) -> None:
        try:
            await guard.get_or_compute(KEY, self.compute, request_bound=True)
        finally:
            self.log.append("session closed")


async def cancel_in_every_turn(task: asyncio.Task[None], turns: int) -> None:
    for _ in range(turns):
        task.cancel()
        await asyncio.sleep(0)


async def test_a_computation_ends_before_its_request_however_often_that_is_cancelled() -> None:
    guard, unwinding = StampedeGuard(MemoryStore()), Unwinding()
    request = asyncio.create_task(unwinding.request(guard))
    await unwinding.gate.arrival()
    await cancel_in_every_turn(request, 20)
    assert not request.done()
    unwinding.rolled_back.set()
    with pytest.raises(asyncio.CancelledError):
        await soon(request)
    assert unwinding.log == ["computation ended", "session closed"]
    await guard.aclose()


async def test_a_fallback_ends_before_its_request_however_often_that_is_cancelled() -> None:
    store, slow, unwinding = MemoryStore(), Gate(), Unwinding()
    holder = StampedeGuard(store)
    waiter = StampedeGuard(store, policy=Policy(wait_timeout=0.05, fallback_timeout=3600))
    holding = asyncio.create_task(holder.get_or_compute(KEY, slow.hold))
    await slow.arrival()
    request = asyncio.create_task(unwinding.request(waiter))
    await unwinding.gate.arrival()
    await cancel_in_every_turn(request, 20)
    assert not request.done()
    unwinding.rolled_back.set()
    with pytest.raises(asyncio.CancelledError):
        await soon(request)
    assert unwinding.log == ["computation ended", "session closed"]
    slow.open()
    await soon(holding)
    await waiter.aclose()
    await holder.aclose()


async def test_the_waiting_for_what_never_ends_is_over_in_time_and_its_cancellation_is_not_lost() -> None:
    endless = asyncio.create_task(asyncio.Event().wait())
    waiting = asyncio.create_task(ended(endless, 0.05))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await soon(waiting)
    assert not endless.done()
    await soon(ended(endless, 0.0))
    endless.cancel()


async def test_a_flight_that_is_ended_while_its_renewal_ends_does_not_go_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ending, go_on = asyncio.Event(), asyncio.Event()

    async def slow_to_end(*_: object) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ending.set()
            await go_on.wait()

    monkeypatch.setattr(Computation, "_renew", slow_to_end)
    guard, gate = StampedeGuard(MemoryStore()), Gate()
    caller = asyncio.create_task(guard.get_or_compute(KEY, gate.hold))
    await gate.arrival()
    (flight,) = guard.engine.runtime().flights.values()
    flight.computation.renew_now()
    await asyncio.sleep(0)  # the renewal has begun too
    gate.open()
    await soon(ending.wait())
    flight.task.cancel()
    go_on.set()
    with pytest.raises(WaitTimeout, match="shutting down"):
        await soon(caller)
    await guard.aclose()
