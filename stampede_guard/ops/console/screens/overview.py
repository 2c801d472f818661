"""Overview: what the fleet does now, and what is wrong."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import Misuse, StoreError, StoreUnavailable
from stampede_guard.ops.console.fleet import KEPT_SLOTS
from stampede_guard.ops.console.screen import Asked, ConsoleScreen
from stampede_guard.ops.console.screens.jobs import known_jobs
from stampede_guard.ops.fleet.troubles import job_troubles, recent_troubles
from stampede_guard.stores.fleet.series import WATCHED
from stampede_guard.stores.fleet.stream import PROCESS_BEGAN
from stampede_guard.stores.fleet.sums import FunctionSums

if TYPE_CHECKING:
    from stampede_guard.ops.console.fleet import Fleet

__all__ = ["SCREEN"]

RATES = ("hits", "stale", "misses", "computations", "saved")
LINES = 12
READ = 1000
JOBS_SECONDS = 1.0
"""For the jobs' back end."""


async def data(fleet: Fleet, asked: Asked) -> dict[str, Any]:
    seen = await fleet.now()
    total = seen.all
    happened = await fleet.happened(most=READ)
    faults = [one for one in happened if one.kind != PROCESS_BEGAN][-LINES:]
    totals = await fleet.totals()
    # The newest complete slot has just ended, by the server's clock.
    now = (max(totals, default=0) + 1) * WATCHED.seconds
    recent = [*recent_troubles(happened, now), *await _of_jobs(fleet)]
    return {
        "seconds": seen.seconds,
        "processes": seen.processes,
        "in_flight": seen.in_flight,
        "l1_bytes": seen.l1_bytes,
        "breaker": {"ok": seen.ok, "away": seen.away, "refused": seen.refused, "full": seen.full},
        "rates": {name: seen.rate(getattr(total, name)) for name in RATES},
        "hit_rate": total.hit_rate,
        "saved_seconds_per_second": seen.rate(total.saved_seconds or 0.0),
        "troubles": [*seen.troubles, *dict.fromkeys(recent)],
        "happened": [
            {
                "at": one.at,
                "kind": one.kind,
                "function": one.function,
                "process": one.process,
                "detail": one.detail,
            }
            for one in reversed(faults)
        ],
        "history": _history(totals),
    }


async def _of_jobs(fleet: Fleet) -> list[str]:
    """An overview without its jobs is better than none."""
    if fleet.leases is None:
        return []
    try:
        async with asyncio.timeout(JOBS_SECONDS):
            views = await known_jobs(fleet).views()
    except (TimeoutError, StoreUnavailable):
        return ["the back end of the jobs does not answer"]
    except (StoreError, Misuse):
        # The console may have no right to read them, and not every fleet has jobs.
        return []
    return job_troubles(views, prefix=fleet.leases.prefix)


def _history(totals: Mapping[int, FunctionSums | None]) -> dict[str, list[float | None]]:
    """Rates per slot, oldest first. None where no viewer was open."""
    found: dict[str, list[float | None]] = {name: [] for name in RATES}
    newest = max(totals, default=0)
    for slot in range(newest - KEPT_SLOTS + 1, newest + 1):
        total = totals.get(slot)
        for name in RATES:
            found[name].append(None if total is None else getattr(total, name) / WATCHED.seconds)
    return found


SCREEN = ConsoleScreen("overview", "Overview", "What the fleet does now, and what is wrong.", data)
