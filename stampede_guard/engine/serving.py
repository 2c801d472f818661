"""One call of a cached function, from its key to its value.

hit     One read, decoded. No lock, no flight.
stale   The stale value at once, or after `soft_timeout`, and a flight in the background.
miss    A passenger of this process's flight, limited by `wait_timeout`. After that, a last resort.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from stampede_guard.core.caller import seconds_to_wait
from stampede_guard.core.entry import Reading, is_fresh
from stampede_guard.core.states import FlightKind
from stampede_guard.engine.calls import captured
from stampede_guard.engine.early import refresh_early
from stampede_guard.engine.flights.computation import CURRENT
from stampede_guard.engine.flights.passenger import ON_ITS_OWN, OUT_OF_PATIENCE
from stampede_guard.engine.flights.reentry import waiting_for
from stampede_guard.engine.flights.registry import bypassed_name
from stampede_guard.engine.flights.timed_out import wait_on
from stampede_guard.engine.l1 import NOTHING, Asked
from stampede_guard.engine.tags.versions import TaggedRun, look, refuse_other_tags, tags_of
from stampede_guard.errors import StoreError, StoreRefused, Undecodable
from stampede_guard.events import Hit, Miss, Refreshed, Source, Stale, TimedOut, Waited

if TYPE_CHECKING:
    from stampede_guard.engine.flights.flight import Flight
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan, Run, Variables

__all__ = [
    "Seen", "after_failed_read", "after_read", "bypassed_place", "fly", "hit", "keep_near", "look_up", "ride",
    "serve", "serve_bypassed",
]  # fmt: skip


class Seen(NamedTuple):
    """What a look at an entry has shown. Without a `reading`, the caller needs a flight.

    `fresh` None: the reading's own times decide. `failed`: the store did not answer. A `source` of "memory": the store
    is away or denies access, and this is the last value that this process saw.
    """

    reading: Reading | None
    fresh: bool | None = None
    source: Source = "store"
    failed: bool = False


_NOTHING_STORED = Seen(None)


async def serve(runtime: Runtime, plan: Plan, name: str, run: Run) -> Any:
    """The value, in mode `on`. Raises the computation's error, `WaitTimeout`, `Overloaded` or a Misuse."""
    asked, tags = None, tags_of(run)
    if runtime.orders:
        runtime.obey()
    if plan.l1:
        value = runtime.l1.find(name, tags, share=plan.share)
        if value is not NOTHING:
            if runtime.hooks.any:
                runtime.hooks.tell(Hit(plan.title, name, "l1"))
            if type(run) is TaggedRun and run.told is not None:
                run.told.note("l1", runtime.l1.age(name))
            return value
        asked = runtime.l1.ask(name, tags)
    flight = runtime.flights.get(name)
    if flight is not None and flight.open_to_all:
        if runtime.hooks.any:
            runtime.hooks.tell(Miss(plan.title, name))
        return await ride(runtime, plan, run, flight, None)
    away = runtime.away and runtime.away_for(name, tags)
    seen = _while_away(runtime, name, tags) if away else await look_up(runtime, name, tags)
    if asked is not None and seen.source == "store":
        keep_near(runtime, plan, name, seen.reading, asked, tags)
    return await _served(runtime, plan, name, run, seen)


# --- a look at an entry ---------------------------------------------------------------------------


async def look_up(runtime: Runtime, name: str, tags: tuple[str, ...] = ()) -> Seen:
    """What the store has, or what this process saw last while the store does not serve it.

    The shortest path (`HitsDoor`) takes the same steps one by one, because there each coroutine counts.
    """
    if runtime.away_for(name, tags):
        return _while_away(runtime, name, tags)
    try:
        reading = await (look(runtime, name, tags) if tags else runtime.session.read(name))
    except StoreError as error:
        return _unanswered(runtime, name, tags, error)
    if runtime.refused or runtime.health.refusing:
        runtime.read_answered()
    return _answered(runtime, name, reading)


async def read(runtime: Runtime, plan: Plan, name: str) -> tuple[Reading | None, Any]:
    """See `JudgedDoor.read`. For a hit it takes the steps of `look_up` without a second coroutine."""
    decode = plan.decode
    if runtime.away:
        reading = _aged(runtime, name, await look_up(runtime, name))
    else:
        try:
            reading = await runtime.read(name)
        except StoreError as error:
            reading = _aged(runtime, name, _unanswered(runtime, name, (), error))
        else:
            if runtime.refused or runtime.health.refusing:
                runtime.read_answered()
            if reading is None:
                runtime.missing(name)
            elif reading is runtime.remembered:
                decode = plan.another
            else:
                runtime.remember(name, reading)
    try:
        return (None, NOTHING) if reading is None else (reading, decode(reading.body))
    except Undecodable as error:
        runtime.warn_undecodable(plan, error, b"" if reading is None else reading.body)
        return reading, NOTHING


def _aged(runtime: Runtime, name: str, seen: Seen) -> Reading | None:
    # The breaker may have opened just now. Otherwise the flight asks once more.
    if seen.source == "memory" or (seen.failed and runtime.away_for(name)):
        return None if runtime.only_waits(name) else runtime.last.aged(name, now=runtime.now())
    return seen.reading


def _answered(runtime: Runtime, name: str, reading: Reading | None) -> Seen:
    if reading is None:
        runtime.missing(name)
        return _NOTHING_STORED
    if reading is not runtime.remembered:
        runtime.remember(name, reading)
    return Seen(reading)


def _unanswered(runtime: Runtime, name: str, tags: tuple[str, ...], error: StoreError) -> Seen:
    if isinstance(error, StoreRefused):
        runtime.note_refusal(error)  # it counts as away: otherwise every call would compute
        return _last_seen(runtime, name, tags)
    if runtime.away_for(name, tags) and (seen := _while_away(runtime, name, tags)).reading is not None:
        return seen  # the breaker is open by now
    # It does not join an early refresh. 1. A fresh value is refreshed early. 2. A caller's read fails. 3. If it joined
    # the refresh and the source failed, it would get an error. A flight of its own finds the value that exists.
    flight = runtime.flights.get(name)
    if flight is not None and flight.state.kind == "early":
        runtime.flights.set_apart(flight)
    runtime.note_late(name, error)
    return Seen(None, failed=True)


def _while_away(runtime: Runtime, name: str, tags: tuple[str, ...]) -> Seen:
    # If it only waits, the flight checks whether a value that this process computed still counts: see `readonly`.
    waits = runtime.unsettled.pending and runtime.only_waits(name, tags)
    return _NOTHING_STORED if waits else _last_seen(runtime, name, tags)


def _last_seen(runtime: Runtime, name: str, tags: tuple[str, ...]) -> Seen:
    known, state = runtime.last.find(name, now=runtime.now())
    if tags and known is not None and not runtime.tags.allow(tags, known.body):
        known = None
    return Seen(known, state == "fresh", "memory")


def keep_near(
    runtime: Runtime,
    plan: Plan,
    name: str,
    reading: Reading | None,
    asked: Asked | None,
    tags: tuple[str, ...] = (),
) -> None:
    """Keep a reading in L1 if it is fresh and a value."""
    if reading is not None and reading.is_fresh:
        with contextlib.suppress(Undecodable):
            runtime.l1.keep(name, reading, plan, asked, tags)
        if runtime.orders:
            # Another event loop has invalidated the entry while the copy was made, which decodes it.
            runtime.obey()


# --- the shortest path ----------------------------------------------------------------------------


def hit(runtime: Runtime, plan: Plan, name: str, reading: Reading | None, near: Asked | None = None) -> Any:
    """The value of a fresh reading. Otherwise `NOTHING`. `near`: the value may be kept in L1."""
    if reading is None:
        return NOTHING
    try:
        if reading is runtime.found_fresh:
            value = plan.another(reading.body)
        else:
            body, _, total_ms, stale_ms, remaining_ms, _ = reading
            if not is_fresh(remaining_ms, total_ms, stale_ms):
                return NOTHING
            if reading is not runtime.remembered:
                runtime.remember(name, reading)
            value = plan.decode(body)
            runtime.found_fresh = reading
    except Undecodable:
        return NOTHING
    if near is not None:
        keep_near(runtime, plan, name, reading, near)
    return value


def after_read(
    runtime: Runtime, plan: Plan, name: str, run: Run, reading: Reading | None
) -> Coroutine[Any, Any, Any]:
    """The value for a caller whose read is no hit. A miss waits in one coroutine: each caller of a herd pays for it."""
    if reading is None:
        runtime.last.missing(name)
        return _miss(runtime, plan, name, run)
    return _served(runtime, plan, name, run, _answered(runtime, name, reading))


def after_failed_read(
    runtime: Runtime, plan: Plan, name: str, run: Run, error: StoreError
) -> Coroutine[Any, Any, Any]:
    """The value for a caller whose read was not answered."""
    return _served(runtime, plan, name, run, _unanswered(runtime, name, tags_of(run), error))


# --- fresh, stale or a miss -----------------------------------------------------------------------


async def _served(runtime: Runtime, plan: Plan, name: str, run: Run, seen: Seen) -> Any:
    reading = seen.reading
    if reading is None:
        return await _miss(runtime, plan, name, run)
    try:
        value = plan.decode(reading.body)
    except Undecodable as error:
        runtime.warn_undecodable(plan, error, reading.body)
        return await _miss(runtime, plan, name, run, newer_than=reading.token)
    fresh = reading.is_fresh if seen.fresh is None else seen.fresh
    if runtime.hooks.any:
        runtime.hooks.tell((Hit if fresh else Stale)(plan.title, name, seen.source))
    if type(run) is TaggedRun and run.told is not None:
        aged = runtime.last.aged(name, now=runtime.now()) if seen.source == "memory" else None
        run.told.seen(aged or reading, in_memory=seen.source == "memory", fresh=fresh)
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
    if runtime.orders:
        runtime.obey()
    return await _miss(runtime, plan, bypassed_name(name), run, kind="bypassed", apart=_apart(within))


def bypassed_place(name: str, within: Iterable[object]) -> str:
    """The place of the flight that `serve_bypassed` finds."""
    return bypassed_name(name) + _apart(within)


def _apart(within: Iterable[object]) -> str:
    return "".join(f"\0{number}" for number in sorted(map(id, within)))


def _miss(
    runtime: Runtime,
    plan: Plan,
    name: str,
    run: Run,
    *,
    newer_than: int = 0,
    old: Reading | None = None,
    kind: FlightKind = "foreground",
    apart: str = "",
) -> Coroutine[Any, Any, Any]:
    """Join a flight for a caller that has no value to continue with. `old`: what other callers may get meanwhile."""
    variables = captured(plan, run)
    if runtime.hooks.any:
        runtime.hooks.tell(Miss(plan.title, name))
    flight = runtime.take_off(name, plan, run, variables, kind=kind, newer_than=newer_than, apart=apart)
    if newer_than:
        flight.require_newer(newer_than)
    if old is not None and (flight.old is None or flight.old.token < old.token):
        flight.know(old)
    return ride(runtime, plan, run, flight, None, variables=variables)


async def fly(runtime: Runtime, plan: Plan, name: str, run: Run, old: Reading | None) -> Any:
    """A value newer than `old`, for a caller that has read the store itself and cannot use the value found."""
    token = 0 if old is None else old.token
    return await _miss(runtime, plan, name, run, newer_than=token, old=old)


async def _stale(runtime: Runtime, plan: Plan, name: str, run: Run, reading: Reading, value: Any) -> Any:
    policy = plan.policy
    flight = runtime.flights.get(name)
    if runtime.closing or (flight is not None and not policy.soft_timeout):
        return value
    if flight is None:
        if not runtime.may_refresh(name, reading):
            return value
        flight = runtime.take_off(name, plan, run, captured(plan, run), kind="refresh")
        flight.know(reading)
        if not policy.soft_timeout:
            # A flight bound to this request cannot run in the background: compute here unless another flight computes.
            bound = plan.request_bound
            return await ride(runtime, plan, run, flight, reading) if bound else value
    flown = runtime.loop.time() - flight.began
    patience = seconds_to_wait("fresh_value", policy, waited=flown)
    if not patience or len(flight.passengers) >= policy.max_passengers:
        return value
    return await ride(runtime, plan, run, flight, reading, soft=patience)


async def ride(
    runtime: Runtime,
    plan: Plan,
    run: Run,
    flight: Flight,
    stale: Reading | None,
    *,
    variables: Variables | None = None,
    keep_refreshing: bool = False,
    soft: float = 0.0,
    began: float | None = None,
    kind: type[Waited | Refreshed] = Waited,
) -> Any:
    """Wait for a flight. `stale` is served when no flight computes. With `soft`, it is served after those seconds.
    `variables`: None = capture them now. `began`: when the wait began, if with another flight. `kind`: tells its end.
    """
    if flight.tags or type(run) is TaggedRun:
        refuse_other_tags(plan.title, tags_of(run), flight.tags)
    hooks, began = runtime.hooks, runtime.loop.time() if began is None else began
    passenger = flight.join(
        run,
        captured(plan, run) if variables is None else variables,
        until=began + (soft or plan.patience),
        bound=plan.request_bound,
        stale=stale,
        patient=soft > 0,
        share=plan.share,
        keep_refreshing=keep_refreshing,
    )
    passenger.refreshes = kind is Refreshed
    try:
        if CURRENT.get() is None:
            outcome = await passenger.future
        else:
            with waiting_for(flight, plan):
                outcome = await passenger.future
        if outcome is OUT_OF_PATIENCE:
            if hooks.any:
                hooks.tell(TimedOut(plan.title, flight.name, "soft_timeout" if soft else "wait_timeout"))
            with waiting_for(flight, plan):
                outcome = await wait_on(runtime, plan, flight, passenger)
        if outcome is not ON_ITS_OWN:
            if type(run) is TaggedRun and run.told is not None:
                passenger.tell(run.told, bypassed=flight.bypassed, waited=runtime.loop.time() - began)
            return outcome
    except asyncio.CancelledError:
        passenger.instead = "cancelled"
        raise
    finally:
        future = passenger.future
        if hooks.any and (ended := passenger.outcome()) is not None:
            waited = runtime.loop.time() - began
            hooks.tell(kind(plan.title, flight.name, waited, ended, flight.id, flight.trace))
        served = future.done() and not future.cancelled()
        if served:
            future.exception()  # retrieved: the caller may be cancelled at the moment in which its flight fails
        if not served or passenger.computing is not None:
            await flight.leave(passenger)
    alone = _take_off_alone(runtime, plan, run, flight)
    return await ride(runtime, plan, run, alone, stale, soft=soft, began=began, kind=kind)


def _take_off_alone(runtime: Runtime, plan: Plan, run: Run, before: Flight) -> Flight:
    """A flight for one caller, after a flight whose value may be private to another caller."""
    kind: FlightKind = "bypassed" if before.bypassed else "alone"
    newer, variables = before.state.newer_than, captured(plan, run)
    return runtime.take_off(before.name, plan, run, variables, kind=kind, newer_than=newer, alone=True)
