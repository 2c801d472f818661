"""One call of a cached function, from its key to its value.

hit     One read, decoded. No lock, no flight.
stale   The stale value at once, or after `soft_timeout`, and a flight in the background.
miss    A passenger of this process's flight, limited by `wait_timeout`. After that, a last resort.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any

from stampede_guard.core.caller import patience_with_stale
from stampede_guard.core.entry import Reading, freshness
from stampede_guard.engine.calls import captured
from stampede_guard.engine.early import refresh_early
from stampede_guard.engine.flights.computation import CURRENT
from stampede_guard.engine.flights.passenger import ON_ITS_OWN, OUT_OF_PATIENCE
from stampede_guard.engine.flights.reentry import waiting_for
from stampede_guard.engine.flights.registry import bypassed_name
from stampede_guard.engine.flights.timed_out import wait_on
from stampede_guard.engine.l1 import NOTHING, Asked
from stampede_guard.engine.tags.versions import look, refuse_other_tags, tags_of
from stampede_guard.errors import StoreError, StoreRefused, Undecodable
from stampede_guard.events import Hit, Miss, Refreshed, Source, Stale, TimedOut, Waited, WaitOutcome

if TYPE_CHECKING:
    from stampede_guard.engine.flights.flight import Flight
    from stampede_guard.engine.flights.passenger import Passenger
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan, Run

__all__ = [
    "after_failed_read",
    "after_read",
    "fly",
    "hit",
    "keep_near",
    "read_failed",
    "ride",
    "serve",
    "serve_bypassed",
]


async def serve(runtime: Runtime, plan: Plan, name: str, run: Run) -> Any:
    """The value, in mode `on`. Raises the computation's error, `WaitTimeout`, `Overloaded` or a Misuse."""
    asked, tags = None, tags_of(run)
    if runtime.orders:
        runtime.obey()
    if plan.l1:
        value = runtime.l1.find(name, tags, share=plan.share)
        if value is not NOTHING:
            if runtime.hooks:
                runtime.hooks.tell(Hit(plan.title, name, "l1"))
            return value
        asked = runtime.l1.ask(name, tags)
    flight = runtime.flights.get(name)
    if flight is not None and flight.open_to_all:
        if runtime.hooks:
            runtime.hooks.tell(Miss(plan.title, name))
        return await ride(runtime, plan, name, run, flight, None)
    if runtime.away_for(name, tags):
        if runtime.only_waits(name, tags):
            # The flight checks whether a value that this process computed itself still counts: see `readonly`.
            return await _miss(runtime, plan, name, run)
        return await _served_by_last(runtime, plan, name, run)
    try:
        reading = await look(runtime, name, tags)
    except StoreRefused as error:
        # The store denies access, so it is treated as away. Otherwise every call would compute.
        runtime.note_refusal(error)
        return await _served_by_last(runtime, plan, name, run)
    except StoreError as error:
        return await after_failed_read(runtime, plan, name, run, error)
    if runtime.refused or runtime.health.refusing:
        runtime.read_answered()
    if asked is not None:
        keep_near(runtime, plan, name, reading, asked, tags)
    return await after_read(runtime, plan, name, run, reading)


async def _served_by_last(runtime: Runtime, plan: Plan, name: str, run: Run) -> Any:
    """The value that this process saw last, while the store does not serve it."""
    known, state = runtime.last.find(name, now=runtime.now())
    if known is not None and not runtime.tags.allow(tags_of(run), known.body):
        known = None
    return await _served_by(runtime, plan, name, run, known, fresh=state == "fresh", source="memory")


def read_failed(runtime: Runtime, name: str) -> None:
    """A caller whose read failed does not join an early refresh.

    1. A fresh value is refreshed early. 2. A caller's read fails. 3. If it joined the refresh and the source failed, it
    would get an error although its value exists. A flight of its own asks the store and finds the value.
    """
    flight = runtime.flights.get(name)
    if flight is not None and flight.early:
        runtime.flights.set_apart(flight)


def keep_near(
    runtime: Runtime,
    plan: Plan,
    name: str,
    reading: Reading | None,
    asked: Asked | None,
    tags: tuple[str, ...] = (),
) -> None:
    """Keep a reading in L1 if it is fresh and a value."""
    if reading is not None and reading.stale_ms < reading.remaining_ms <= reading.total_ms:
        with contextlib.suppress(Undecodable):
            runtime.l1.keep(name, reading, plan, asked, tags)


def hit(runtime: Runtime, plan: Plan, name: str, reading: Reading | None) -> tuple[Any, bool]:
    """The value and True if the reading is fresh."""
    if reading is None or not reading.stale_ms < reading.remaining_ms <= reading.total_ms:
        return None, False
    if reading is not runtime.remembered:
        runtime.remember(name, reading)
    try:
        return plan.decode(reading.body), True
    except Undecodable:
        return None, False


def after_read(
    runtime: Runtime, plan: Plan, name: str, run: Run, reading: Reading | None
) -> Coroutine[Any, Any, Any]:
    """The value for a caller whose read was answered with `reading`. None: the store has no value."""
    fresh = False
    if reading is None:
        runtime.missing(name)
    else:
        fresh = freshness(reading.remaining_ms, reading.total_ms, reading.stale_ms) == "fresh"
        if reading is not runtime.remembered:
            runtime.remember(name, reading)
    return _served_by(runtime, plan, name, run, reading, fresh=fresh)


def after_failed_read(
    runtime: Runtime, plan: Plan, name: str, run: Run, error: StoreError
) -> Coroutine[Any, Any, Any]:
    """The value for a caller whose read was not answered: its flight asks the store again."""
    read_failed(runtime, name)
    runtime.note_late(name, error)
    return _miss(runtime, plan, name, run)


async def _served_by(
    runtime: Runtime,
    plan: Plan,
    name: str,
    run: Run,
    reading: Reading | None,
    *,
    fresh: bool,
    source: Source = "store",
) -> Any:
    if reading is None:
        return await _miss(runtime, plan, name, run)
    try:
        value = plan.decode(reading.body)
    except Undecodable as error:
        runtime.warn_undecodable(plan, error)
        return await _miss(runtime, plan, name, run, newer_than=reading.token)
    if runtime.hooks:
        runtime.hooks.tell((Hit if fresh else Stale)(plan.title, name, source))
    if fresh:
        if plan.early:
            refresh_early(runtime, plan, name, run, reading)
        return value
    return await _stale(runtime, plan, name, run, reading, value)


async def serve_bypassed(
    runtime: Runtime, plan: Plan, name: str, run: Run, *, within: frozenset[object] = frozenset()
) -> Any:
    """The value, in mode `bypass`: no store, but still one flight per key in this process.

    `within`: the guards in whose `bypassed()` block the caller is. Such a computation does
    not use these guards' stores, so its value may differ. Callers in different blocks do not share a flight.
    """
    name = bypassed_name(name)
    if runtime.orders:
        runtime.obey()
    if runtime.hooks:
        runtime.hooks.tell(Miss(plan.title, name))
    apart = "".join(f"\0{number}" for number in sorted(map(id, within)))
    flight = runtime.take_off(name, plan, run, captured(plan, run), bypassed=True, apart=apart)
    return await ride(runtime, plan, name, run, flight, None)


def _miss(
    runtime: Runtime, plan: Plan, name: str, run: Run, *, newer_than: int = 0
) -> Coroutine[Any, Any, Any]:
    return ride(runtime, plan, name, run, _to_take_off(runtime, plan, name, run, newer_than), None)


async def fly(runtime: Runtime, plan: Plan, name: str, run: Run, old: Reading | None) -> Any:
    """A value newer than `old`, for a caller that has read the store itself and cannot use the value found."""
    token = old.token if old is not None else 0
    flight = _to_take_off(runtime, plan, name, run, token)
    if old is not None and (flight.old is None or flight.old.token < token):
        flight.know(old)
    return await ride(runtime, plan, name, run, flight, None)


def _to_take_off(runtime: Runtime, plan: Plan, name: str, run: Run, newer_than: int) -> Flight:
    """The flight for a caller that has no value to continue with."""
    if runtime.hooks:
        runtime.hooks.tell(Miss(plan.title, name))
    flight = runtime.take_off(name, plan, run, captured(plan, run), newer_than=newer_than)
    flight.newer_than = max(flight.newer_than, newer_than)
    runtime.tell_late(flight)
    return flight


async def _stale(runtime: Runtime, plan: Plan, name: str, run: Run, reading: Reading, value: Any) -> Any:
    policy = plan.policy
    flight = runtime.flights.get(name)
    if runtime.closing or (flight is not None and not policy.soft_timeout):
        return value
    if flight is None:
        if runtime.failing.hold(name, reading.token) or len(runtime.flights) >= policy.max_flights:
            return value
        flight = runtime.take_off(name, plan, run, captured(plan, run), refreshing=True)
        flight.know(reading)
        if not policy.soft_timeout:
            # A flight bound to this request cannot run in the background: compute here unless another flight computes.
            bound = plan.request_bound
            return await ride(runtime, plan, name, run, flight, reading) if bound else value
    patience = patience_with_stale(
        soft_timeout=policy.soft_timeout,
        wait_timeout=policy.wait_timeout,
        flown=runtime.loop.time() - flight.began,
    )
    if not patience or len(flight.passengers) >= policy.max_passengers:
        return value
    return await ride(runtime, plan, name, run, flight, reading, soft=patience)


async def ride(
    runtime: Runtime,
    plan: Plan,
    name: str,
    run: Run,
    flight: Flight,
    stale: Reading | None,
    *,
    keep_refreshing: bool = False,
    soft: float = 0.0,
    began: float | None = None,
    kind: type[Waited | Refreshed] = Waited,
) -> Any:
    """Wait for a flight. `stale` is served when no flight computes. With `soft`, it is served after those seconds.

    `began`: when the wait began, if it began with another flight. `kind`: the event class for the end of the wait.
    """
    refuse_other_tags(plan.title, tags_of(run), flight.tags)
    passenger = flight.join(
        run, captured(plan, run), bound=plan.request_bound, stale=stale, patient=soft > 0, share=plan.share
    )
    if keep_refreshing:
        flight.refreshing = True
    began = runtime.loop.time() if began is None else began
    patience = runtime.loop.call_at(began + (soft or plan.policy.wait_timeout), passenger.lose_patience)
    try:
        if CURRENT.get() is None:
            outcome = await passenger.future
        else:
            with waiting_for(flight, plan):
                outcome = await passenger.future
        if outcome is OUT_OF_PATIENCE:
            if runtime.hooks:
                runtime.hooks.tell(TimedOut(plan.title, name, "soft_timeout" if soft else "wait_timeout"))
            with waiting_for(flight, plan):
                outcome = await wait_on(runtime, plan, name, flight, passenger)
        if outcome is not ON_ITS_OWN:
            return outcome
    except asyncio.CancelledError:
        passenger.instead = "cancelled"
        raise
    finally:
        patience.cancel()
        future = passenger.future
        if runtime.hooks and (ended := _outcome(passenger)) is not None:
            runtime.hooks.tell(kind(plan.title, name, runtime.loop.time() - began, ended, flight.id))
        if future.done() and not future.cancelled():
            # Retrieve the error: the caller may have been cancelled at the moment in which its flight failed.
            future.exception()
        if not future.done() or future.cancelled() or passenger.computing is not None:
            await flight.leave(passenger)
    variables, bypassed = captured(plan, run), flight.bypassed
    alone = runtime.take_off(
        name, plan, run, variables, bypassed=bypassed, newer_than=flight.newer_than, alone=True
    )
    return await ride(runtime, plan, name, run, alone, stale, soft=soft, began=began, kind=kind)


def _outcome(passenger: Passenger) -> WaitOutcome | None:
    """None for a passenger that continues to wait, for a computation of its own."""
    if passenger.instead is not None:
        return passenger.instead
    future = passenger.future
    if not future.done() or future.exception() is not None:
        return "error"
    if future.result() is ON_ITS_OWN:
        return None
    return "computed" if passenger.led else "collapsed"
