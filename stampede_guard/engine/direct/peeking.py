"""A look at an entry that never computes: no lease, no flight, one round trip."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stampede_guard.engine.l1 import NOTHING
from stampede_guard.engine.serving import keep_near, look_up
from stampede_guard.errors import Undecodable

if TYPE_CHECKING:
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan

__all__ = ["peek"]


async def peek(runtime: Runtime, plan: Plan, name: str, tags: tuple[str, ...] = ()) -> Any:
    """The fresh value, or `NOTHING`: then a call would compute, or wait for a computation."""
    if runtime.orders:
        runtime.obey()
    asked = None
    if plan.l1:
        value = runtime.l1.find(name, tags, share=plan.share)
        if value is not NOTHING:
            return value
        asked = runtime.l1.ask(name, tags)
    late = name in runtime.flights.late
    seen = await look_up(runtime, name, tags)
    if seen.failed:
        if not late:
            # No flight follows this look.
            runtime.flights.late.discard(name)
        if runtime.away_for(name, tags):
            # It sends nothing now.
            seen = await look_up(runtime, name, tags)
    reading = seen.reading
    if reading is None or not (reading.is_fresh if seen.fresh is None else seen.fresh):
        return NOTHING
    if asked is not None and seen.source == "store":
        keep_near(runtime, plan, name, reading, asked, tags)
    try:
        return plan.decode(reading.body)
    except Undecodable as error:
        runtime.warn_undecodable(plan, error, reading.body)
        return NOTHING
