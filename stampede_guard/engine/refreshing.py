"""`refresh()`: a value that is newer than the call, even if a fresh one exists."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from stampede_guard.core.caller import seconds_to_wait, store_deadline
from stampede_guard.core.states import FlightKind
from stampede_guard.engine.calls import captured
from stampede_guard.engine.flights.reentry import waiting_for
from stampede_guard.engine.flights.timed_out import too_long
from stampede_guard.engine.serving import ride
from stampede_guard.engine.tags.versions import tags_of
from stampede_guard.errors import StoreError, Undecodable
from stampede_guard.events import Refreshed, TimedOut

if TYPE_CHECKING:
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan, Run

__all__ = ["let_land", "outdate_older", "refresh"]


async def refresh(runtime: Runtime, plan: Plan, name: str, run: Run) -> Any:
    """Compute again even if a fresh value exists. Other callers get the old value until the new one is stored."""
    began = runtime.loop.time()
    runtime.obey()
    await let_land(runtime, plan, name, name)
    token, reading = 0, None
    if not runtime.away_for(name, tags_of(run)):
        try:
            reading = await runtime.session.read(name)
            token = reading.token if reading is not None else 0
        except StoreError as error:
            runtime.note_late(name, error)
    kind: FlightKind = "refresh" if token else "foreground"
    flight = runtime.take_off(name, plan, run, captured(plan, run), kind=kind, newer_than=token)
    flight.require_newer(token, refresh=True)
    if reading is not None:
        with contextlib.suppress(Undecodable):
            plan.decode(reading.body)
            flight.know(reading)
    value = await ride(
        runtime, plan, run, flight, None, keep_refreshing=token > 0, began=began, kind=Refreshed
    )
    # Without an outcome of the flight, the value is that of a fallback. Whether that was stored is not known here.
    kept = flight.state.kept if flight.state.served else None
    if kept is False or (kept is None and await _has_none_since(runtime, name, token)):
        await runtime.outdate(name, plan.policy, late=flight.state.late)
    return value


async def let_land(runtime: Runtime, plan: Plan, name: str, place: str) -> None:
    """Wait for the flight at this place: its computation may have begun before this call. The computation of the next
    flight begins after it. Raises `WaitTimeout`.
    """
    began, before = runtime.loop.time(), runtime.flights.get(place)
    if before is None:
        return
    with waiting_for(before, plan):
        await before.landing.wait(seconds_to_wait("value", plan.policy))
    if not before.landing.happened:
        if runtime.hooks:
            runtime.hooks.tell(TimedOut(plan.title, name, "wait_timeout"))
            seconds = runtime.loop.time() - began
            runtime.hooks.tell(Refreshed(plan.title, name, seconds, "timeout", before.id))
        raise too_long(plan)


async def outdate_older(runtime: Runtime, plan: Plan, name: str, *, looks: bool = False) -> None:
    """A value was computed anew past the store. What the store has is older, and no later caller may get it when the
    mode is on again. Where nothing is stored or computed, nothing is written. `looks`: the looks of mode `shadow` leave
    records without a value of their own; an invalidation would drop what they keep and compare.
    """
    late = False
    if not runtime.away_for(name):
        try:
            async with asyncio.timeout(store_deadline(late=False)):
                # A full server may have evicted one of the two.
                record, reading = await asyncio.gather(
                    runtime.session.fence(name), runtime.session.read(name)
                )
        except TimeoutError:
            late = True
        except StoreError as error:
            late = error.late
        else:
            if reading is None and (record is None or looks):
                await runtime.replace(name, _nothing)
                return
    await runtime.outdate(name, plan.policy, late=late)


async def _nothing() -> int:
    """The change of an entry of which only this process may know."""
    return 0


async def _has_none_since(runtime: Runtime, name: str, token: int) -> bool:
    """Whether the store may have no value newer than this token, although it refused a newer one.

    1. A refresh is granted token 9. The stored value has token 5. 2. A full server evicts the record. 3. The refreshed
    value is refused, as every value is whose record is gone. The old value is still there, and fresh.
    """
    try:
        kept = await runtime.session.read(name)
    except StoreError:
        return True
    return kept is not None and kept.token <= token
