"""The fallback: one bounded computation beside a holder that is too slow."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import StampedeGuard, WaitTimeout
from stampede_guard.engine.flights.fallback import FallbackRun
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards, joined
from tests.support.heap import collect

KEY = "report:7"


def ask(guard: StampedeGuard, gate: Gate, value: str, **fields: Any) -> asyncio.Task[str]:
    async def compute() -> str:
        await gate.hold()
        return value

    return asyncio.create_task(guard.get_or_compute(KEY, compute, **fields))


async def hold(guards: Guards, gate: Gate) -> asyncio.Task[str]:
    """A process that holds the lease, and computes until its gate is opened."""
    holding = ask(guards.guard(), gate, "late")
    await gate.arrival()
    return holding


async def test_a_waiter_that_has_waited_long_enough_computes_and_everybody_has_its_value(
    guards: Guards,
) -> None:
    slow, quick = Gate(), Gate()
    holding = await hold(guards, slow)
    patient = ask(guards.guard(), quick, "patient", wait_timeout=3600)
    impatient = ask(guards.guard(), quick, "fallback", wait_timeout=0.05)
    await quick.arrival()
    quick.open()
    assert await soon(impatient) == "fallback"
    assert await soon(patient) == "fallback", "the value ends the wait of all"
    assert (slow.entered, quick.entered) == (1, 1)
    slow.open()
    assert await soon(holding) == "late"
    # The holder began before the fallback did: what it brings is older, and is not stored over it.
    assert await soon(ask(guards.guard(), quick, "unused")) == "fallback"


async def test_one_fallback_per_process_and_the_limit_fleet_wide(guards: Guards) -> None:
    slow, quick = Gate(), Gate()
    holding = await hold(guards, slow)
    fields = {"wait_timeout": 0.05, "fallback_limit": 2, "fallback_timeout": 10.0}
    callers = [ask(guard, quick, "fallback", **fields) for guard in _many(guards, 4) for _ in range(3)]
    await quick.arrival()
    await quick.arrival()
    # All others are denied, or find one running in their process, and wait for what it brings.
    await until(lambda: sum(bool(guard.engine.runtime().fallbacks) for guard in guards.made) == 2)
    quick.open()
    assert await soon(asyncio.gather(*callers)) == ["fallback"] * 12
    assert quick.entered == 2
    slow.open()
    await soon(holding)
    assert all(guard.engine.runtime().fallbacks == {} for guard in guards.made)


def _many(guards: Guards, count: int) -> list[StampedeGuard]:
    return [guards.guard() for _ in range(count)]


async def test_passengers_of_a_slow_computation_of_their_own_process_get_the_fallbacks_value(
    guards: Guards,
) -> None:
    slow, quick = Gate(), Gate()
    guard = guards.guard()
    leader = ask(guard, slow, "late")
    await slow.arrival()
    passengers = [ask(guard, quick, "fallback", wait_timeout=0.05, fallback_timeout=3600) for _ in range(3)]
    await quick.arrival()
    quick.open()
    assert await soon(asyncio.gather(*passengers)) == ["fallback"] * 3
    assert quick.entered == 1
    slow.open()
    assert await soon(leader) == "late"


async def test_a_passenger_that_was_denied_waits_for_the_fallback_that_denied_it_also_if_that_has_ended(
    guards: Guards, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick = Gate(), Gate()
    guard = guards.guard()
    fields: dict[str, Any] = {"wait_timeout": 0.05, "fallback_timeout": 3600}
    leader = ask(guard, slow, "late")
    await slow.arrival()
    first = ask(guard, quick, "fallback", **fields)
    await quick.arrival()
    attempt = FallbackRun.attempt

    async def attempt_until_the_other_has_ended(self: FallbackRun, meanwhile: asyncio.Future[Any]) -> Any:
        answer = await attempt(self, meanwhile)
        assert self.denied
        quick.open()
        assert await soon(first) == "fallback"
        assert guard.engine.runtime().fallbacks == {}
        return answer

    monkeypatch.setattr(FallbackRun, "attempt", attempt_until_the_other_has_ended)
    assert await soon(ask(guard, quick, "unused", **fields)) == "fallback"
    slow.open()
    assert await soon(leader) == "late"


async def test_bytes_that_this_process_cannot_decode_are_no_answer_to_a_fallback(
    guards: Guards, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick, answers = Gate(), asyncio.Event()
    guard = guards.guard()
    session = guard.engine.runtime().session
    acquire = session.acquire

    async def late(*args: Any, **fields: Any) -> Any:
        await guards.put(guards.name(KEY), b"neither JSON nor anything else")
        await answers.wait()
        return await acquire(*args, **fields)

    monkeypatch.setattr(session, "acquire", late)
    quick.open()
    assert await soon(ask(guard, quick, "fallback", wait_timeout=0.5, fallback_timeout=60.0)) == "fallback"
    answers.set()


def refresh(guard: StampedeGuard, gate: Gate, value: str, **fields: Any) -> asyncio.Task[str]:
    async def compute() -> str:
        await gate.hold()
        return value

    return asyncio.create_task(guard.refresh(KEY, compute, **fields))


async def test_a_value_from_before_a_refresh_is_no_answer_to_its_fallback(
    guards: Guards, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow, quick, answers = Gate(), Gate(), asyncio.Event()
    holding = await hold(guards, slow)
    guard = guards.guard()
    session = guard.engine.runtime().session
    acquire = session.acquire

    async def late(*args: Any, **fields: Any) -> Any:
        slow.open()
        assert await soon(holding) == "late"
        await answers.wait()
        return await acquire(*args, **fields)

    monkeypatch.setattr(session, "acquire", late)
    quick.open()
    assert await soon(refresh(guard, quick, "after", wait_timeout=0.5, fallback_timeout=60.0)) == "after"
    answers.set()


async def test_the_value_that_a_refresh_replaces_is_no_last_resort(guards: Guards) -> None:
    slow, quick = Gate(), Gate()
    quick.open()
    assert await soon(ask(guards.guard(), quick, "before")) == "before"
    holding = refresh(guards.guard(), slow, "late")
    await slow.arrival()
    with pytest.raises(WaitTimeout):
        await soon(refresh(guards.guard(), quick, "unused", wait_timeout=0.05, fallback_limit=0))
    slow.open()
    assert await soon(holding) == "late"


async def test_the_holders_value_ends_a_fallback_that_is_slower(guards: Guards) -> None:
    slow, slower = Gate(), Gate()
    holding = await hold(guards, slow)
    waiter = guards.guard()
    waiting = ask(waiter, slower, "fallback", wait_timeout=0.05, fallback_timeout=3600)
    await slower.arrival()
    slow.open()
    assert await soon(waiting) == await soon(holding) == "late"
    slower.open()
    await until(lambda: waiter.engine.runtime().fallbacks == {})
    assert await soon(ask(guards.guard(), slower, "unused")) in ("late", "fallback")


async def test_without_a_fallback_the_caller_is_told_to_come_back(guards: Guards) -> None:
    slow, quick = Gate(), Gate()
    holding = await hold(guards, slow)
    with pytest.raises(WaitTimeout, match=r"no value within wait_timeout \(0\.05 s\)") as caught:
        await soon(ask(guards.guard(), quick, "x", wait_timeout=0.05, fallback_limit=0))
    assert caught.value.retry_after > 0
    assert quick.entered == 0
    slow.open()
    await soon(holding)


async def test_a_fallback_that_takes_too_long_is_cancelled_and_its_caller_told_to_come_back(
    guards: Guards,
) -> None:
    slow, slower = Gate(), Gate()
    holding = await hold(guards, slow)
    waiter = guards.guard()
    with pytest.raises(WaitTimeout, match="fallback_timeout"):
        await soon(ask(waiter, slower, "x", wait_timeout=0.05, fallback_timeout=0.05))
    assert (slower.entered, slower.cancelled) == (1, 1)
    assert waiter.engine.runtime().fallbacks == {}
    slow.open()
    await soon(holding)


async def test_a_fallback_that_fails_is_the_cause_of_the_time_out_and_keeps_its_slot(guards: Guards) -> None:
    slow, quick = Gate(), Gate()
    holding = await hold(guards, slow)
    tries = []

    async def failing() -> str:
        tries.append(1)
        raise ConnectionError("the database is gone")

    for guard in _many(guards, 3):
        with pytest.raises(WaitTimeout) as caught:
            await soon(
                guard.get_or_compute(KEY, failing, wait_timeout=0.05, fallback_timeout=0.3, error_ttl=0)
            )
        if len(tries) == 1 and guard is guards.made[1]:
            assert isinstance(caught.value.__cause__, ConnectionError)
    # A failing source is not asked once by every process in turn.
    assert len(tries) == 1
    slow.open()
    quick.open()
    assert await soon(holding) == "late"


async def test_a_stale_value_comes_before_a_fallback(guards: Guards) -> None:
    slow, quick = Gate(), Gate()
    quick.open()
    guard = guards.guard(ttl=60, stale_ttl=600)
    await ask(guard, quick, "old")
    await guards.age(guards.name(KEY), 61)
    refreshing = ask(guard, slow, "new", request_bound=True)
    await slow.arrival()
    assert await soon(ask(guard, slow, "x", request_bound=True, wait_timeout=0.05)) == "old"
    slow.open()
    assert await soon(refreshing) == "new"
    assert slow.entered == 1


async def test_a_leader_waits_for_its_own_computation_longer_than_wait_timeout(guards: Guards) -> None:
    gate = Gate()
    guard = guards.guard(fallback_limit=0)
    leader = ask(guard, gate, "value", wait_timeout=0.4)
    await gate.arrival()
    # When this one has run out of patience, the leader's own has been over for a while.
    with pytest.raises(WaitTimeout):
        await soon(ask(guard, gate, "x", wait_timeout=0.6))
    assert not leader.done()
    gate.open()
    assert await soon(leader) == "value"


async def test_a_fallback_that_belongs_to_a_request_ends_with_it(guards: Guards) -> None:
    slow, quick = Gate(), Gate()
    holding = await hold(guards, slow)
    waiter = guards.guard()
    leaving = ask(waiter, quick, "x", wait_timeout=0.05, fallback_timeout=3600, request_bound=True)
    await quick.arrival()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert quick.cancelled == 1
    slow.open()
    await soon(holding)


async def test_a_fallback_that_belongs_to_nobody_goes_on_when_its_caller_leaves(guards: Guards) -> None:
    slow, quick = Gate(), Gate()
    holding = await hold(guards, slow)
    waiter = guards.guard()
    leaving = ask(waiter, quick, "fallback", wait_timeout=0.05, fallback_timeout=3600)
    await quick.arrival()
    staying = ask(waiter, quick, "x", wait_timeout=3600)
    await joined(waiter, guards.name(KEY), 2)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    quick.open()
    assert await soon(staying) == "fallback"
    assert (quick.entered, quick.cancelled) == (1, 0)
    slow.open()
    await soon(holding)


async def test_the_error_of_a_fallback_whose_caller_has_left_is_not_reported(guards: Guards) -> None:
    reports: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reports.append(context))
    slow, gate = Gate(), Gate()
    holding = await hold(guards, slow)
    waiter = guards.guard()

    async def failing() -> str:
        await gate.hold()
        raise ConnectionError("the database is gone")

    leaving = asyncio.create_task(
        waiter.get_or_compute(KEY, failing, wait_timeout=0.05, fallback_timeout=3600)
    )
    await gate.arrival()
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    gate.open()
    await until(lambda: waiter.engine.runtime().fallbacks == {})
    collect()
    assert reports == []
    slow.open()
    await soon(holding)


async def fallback_beside_a_granted_flight(
    guards: Guards, gate: Gate
) -> tuple[StampedeGuard, asyncio.Task[str]]:
    """A bound caller whose fallback is at the gate, and whose own flight has got the lease meanwhile."""
    slow, waiter = Gate(), guards.guard()
    holding = ask(guards.guard(), slow, "late", request_bound=True)
    await slow.arrival()
    waiting = ask(waiter, gate, "fallback", wait_timeout=0.05, fallback_timeout=3600, request_bound=True)
    await gate.arrival()
    flight = waiter.engine.runtime().flights[guards.name(KEY)]
    holding.cancel()
    await until(lambda: flight.computing)
    return waiter, waiting


async def test_a_callers_function_does_not_run_in_its_flight_while_it_runs_in_its_fallback(
    guards: Guards,
) -> None:
    gate = Gate()
    waiter, waiting = await fallback_beside_a_granted_flight(guards, gate)
    gate.open()
    assert await soon(waiting) == "fallback"
    assert gate.entered == 1, "its session is for one at a time"
    await until(lambda: not waiter.engine.runtime().flights)
    assert await guards.lease_holder(guards.name(KEY)) == ""


async def test_a_caller_that_comes_while_the_only_other_is_busy_with_a_fallback_computes_at_once(
    guards: Guards,
) -> None:
    gate, other = Gate(), Gate()
    waiter, waiting = await fallback_beside_a_granted_flight(guards, gate)
    coming = ask(waiter, other, "second", request_bound=True)
    await other.arrival()
    other.open()
    assert await soon(asyncio.gather(waiting, coming)) == ["second", "second"]
    assert (gate.entered, gate.cancelled, other.entered) == (1, 1, 1)
