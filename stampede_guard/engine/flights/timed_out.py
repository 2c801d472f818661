"""What a caller gets when the waiting time is over, while the flight goes on for others."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, assert_never

from stampede_guard import events
from stampede_guard.core.caller import last_resort, seconds_to_wait
from stampede_guard.engine.flights.fallback import Beside, FallbackRun, is_answer
from stampede_guard.engine.l1 import NOTHING
from stampede_guard.engine.tags.versions import look
from stampede_guard.errors import StoreError, Undecodable, WaitTimeout

if TYPE_CHECKING:
    from stampede_guard.engine.flights.flight import Flight
    from stampede_guard.engine.flights.passenger import Passenger
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan

__all__ = ["too_long", "wait_on"]


async def wait_on(runtime: Runtime, plan: Plan, flight: Flight, passenger: Passenger) -> Any:
    """Serve a caller that has already waited for `wait_timeout`, or for `soft_timeout` with a stale value."""
    policy = plan.policy
    future = passenger.future
    patience = 0.0
    tried: Any = "untried"
    beside: Beside | None = None
    while True:
        await asyncio.wait({future}, timeout=patience)
        if future.done():
            passenger.instead = None
            return future.result()
        passenger.instead = "timeout"
        resort = last_resort(
            computes_itself=_computes_itself(flight, passenger),
            bound=passenger.bound,
            has_stale=passenger.stale is not None,
            fallback_limit=0 if flight.bypassed else policy.fallback_limit,
            fallback=tried,
        )
        match resort:
            case "keep_waiting":
                patience = seconds_to_wait("own_computation", policy)
            case "serve_stale":
                assert passenger.stale is not None
                passenger.instead = "stale"
                return plan.codec.decode(passenger.stale.body)
            case "try_fallback":
                fallback, value, served = await _attempt(runtime, plan, flight, passenger)
                if served:
                    # The news of its own publication may have come first. The caller has computed all the same.
                    passenger.instead = "fallback" if fallback.computed or not future.done() else None
                    return value
                tried, beside = "denied" if fallback.denied else "over", fallback.beside
                patience = 0.0
            case "wait_for_fallback":
                seconds = seconds_to_wait("another_fallback", policy)
                found = await _wait_for_fallback(runtime, plan, flight, passenger, beside, seconds)
                if found is not NOTHING:
                    return found
                tried = "over"
                patience = 0.0
            case "give_up":
                found = NOTHING if flight.bypassed else await _last_look(runtime, plan, flight, passenger)
                if found is not NOTHING:
                    return found
                # The computation of its call may have begun by now. To leave now would throw that away.
                if not _computes_itself(flight, passenger):
                    raise too_long(plan)
                patience = 0.0
            case _:
                assert_never(resort)


async def _attempt(
    runtime: Runtime, plan: Plan, flight: Flight, passenger: Passenger
) -> tuple[FallbackRun, Any, bool]:
    """A fallback that is over, its value, and whether it has one."""
    fallback = FallbackRun(runtime, plan, flight, passenger)
    served = False
    try:
        value, served = await fallback.attempt(passenger.future)
        return fallback, value, served
    finally:
        if runtime.hooks:
            outcome: events.FallbackOutcome
            outcome = "served" if served else "denied" if fallback.denied else "failed"
            runtime.hooks.tell(events.Fallback(plan.title, flight.name, outcome))


def _computes_itself(flight: Flight, passenger: Passenger) -> bool:
    # Also while its value is being published. A fallback would run its call a second time. With `single`, it would
    # store the same value under a newer token, and so undo an invalidation that came between.
    return flight.computing and flight.computation.leader == passenger.number


async def _wait_for_fallback(
    runtime: Runtime,
    plan: Plan,
    flight: Flight,
    passenger: Passenger,
    beside: Beside | None,
    seconds: float,
) -> Any:
    """Wait for a value, or for the end of this process's own fallback: a flight that computes hears no messages.

    The result is what that fallback has stored, or `NOTHING`.

    1. A passenger is denied, because another one's fallback runs. 2. That fallback ends with a value. 3. The passenger
    begins to wait. If it looked only now which fallback runs, it would wait for the whole time. So it waits for the
    fallback that denied it.

    1. A fallback computes. 2. The entry is invalidated. 3. A passenger comes, and is denied. 4. The fallback ends with
    a value that was not stored. The passenger waits on, as it would if the fallback had failed.
    """
    future, until = passenger.future, runtime.loop.time() + seconds
    if beside is not None:
        task, over = beside
        mine = over.join()
        try:
            await asyncio.wait({future, mine}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.leave(mine)
        if not future.done() and _has_a_value(task):
            found = await _stored(runtime, plan, flight, passenger)
            if found is not NOTHING:
                return found
    await asyncio.wait({future}, timeout=max(0.0, until - runtime.loop.time()))
    return NOTHING


def _has_a_value(fallback: asyncio.Task[tuple[Any, bool]]) -> bool:
    if not fallback.done() or fallback.cancelled() or fallback.exception() is not None:
        return False
    return fallback.result()[1]


async def _last_look(runtime: Runtime, plan: Plan, flight: Flight, passenger: Passenger) -> Any:
    """Read the store once more: another process's fallback may have stored a value while this flight computes.

    `NOTHING` if there is no value, and the flight has none either.
    """
    found = await _stored(runtime, plan, flight, passenger)
    if found is not NOTHING:
        return found
    if passenger.future.done():
        passenger.instead = None
        return passenger.future.result()
    return NOTHING


async def _stored(runtime: Runtime, plan: Plan, flight: Flight, passenger: Passenger) -> Any:
    """The fresh value in the store if it is an answer for this caller, or `NOTHING`."""
    if runtime.away_for(flight.name, flight.tags):
        return NOTHING
    with contextlib.suppress(StoreError, Undecodable):
        reading = await look(runtime, flight.name, flight.tags)
        if reading is not None and reading.is_fresh and is_answer(flight, passenger, reading):
            value = plan.codec.decode(reading.body)
            passenger.instead = "collapsed"
            return value
    return NOTHING


def too_long(plan: Plan) -> WaitTimeout:
    waited = plan.policy.wait_timeout
    return WaitTimeout(f"{plan.title}: no value within wait_timeout ({waited:g} s), and no fallback gave one")
