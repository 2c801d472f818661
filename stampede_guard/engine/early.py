"""Early refresh: compute a fresh value again in the background shortly before it expires, once in all processes.

Every reader draws a random number (`core.early.due`). A reader whose draw makes it due gets the fresh value, like all
others, and begins a flight that no caller waits for. This flight asks for a value newer than the one that was read. If
another process has refreshed since that read, the flight finds the new value and computes nothing. The flight does not
wait for the lease: if it is held elsewhere, or if the store does not answer, the flight lands. This process then does
not ask again for one `poll_interval`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from stampede_guard.core.early import due
from stampede_guard.core.entry import Reading
from stampede_guard.engine.calls import captured
from stampede_guard.engine.tags.versions import tags_of

if TYPE_CHECKING:
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan, Run

__all__ = ["refresh_early"]


def refresh_early(runtime: Runtime, plan: Plan, name: str, run: Run, reading: Reading) -> None:
    """Begin a refresh in the background if the draw makes this reader of a fresh value due."""
    ttl_ms = reading.total_ms - reading.stale_ms
    fresh_ms_left = reading.remaining_ms - reading.stale_ms
    if not due(
        took_ms=reading.took_ms,
        ttl_ms=ttl_ms,
        beta=plan.policy.early_beta,
        fresh_ms_left=fresh_ms_left,
        draw=runtime.draw(),
    ):
        return
    if runtime.asked_early.hold(name) or not runtime.may_refresh(name, reading):
        return
    # Without the store or its leases every process would compute, and no caller needs the value yet.
    if runtime.away_for(name, tags_of(run)) or runtime.refused:
        return
    flight = runtime.take_off(name, plan, run, captured(plan, run), kind="early", newer_than=reading.token)
    flight.know(reading)

    def landed(_: asyncio.Future[None]) -> None:
        if not flight.computation.has_begun:
            runtime.asked_early.pause(name, plan.policy.poll_interval)

    flight.landed.add_done_callback(landed)
