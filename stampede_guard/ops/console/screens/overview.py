"""Overview: what the fleet does now, and what is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from stampede_guard.ops.console.fleet import KEPT_SLOTS
from stampede_guard.ops.console.screen import Asked, ConsoleScreen
from stampede_guard.stores.fleet.series import WATCHED
from stampede_guard.stores.fleet.stream import PROCESS_BEGAN
from stampede_guard.stores.fleet.sums import FunctionSums

if TYPE_CHECKING:
    from stampede_guard.ops.console.fleet import Fleet

__all__ = ["SCREEN"]

RATES = ("hits", "stale", "misses", "computations", "saved")
LINES = 12


async def data(fleet: Fleet, asked: Asked) -> dict[str, Any]:
    seen = await fleet.now()
    total = seen.all
    faults = [one for one in await fleet.happened() if one.kind != PROCESS_BEGAN][-LINES:]
    return {
        "seconds": seen.seconds,
        "processes": seen.processes,
        "in_flight": seen.in_flight,
        "l1_bytes": seen.l1_bytes,
        "breaker": {"ok": seen.ok, "away": seen.away, "refused": seen.refused, "full": seen.full},
        "rates": {name: seen.rate(getattr(total, name)) for name in RATES},
        "hit_rate": total.hit_rate,
        "saved_seconds_per_second": seen.rate(total.saved_seconds or 0.0),
        "troubles": seen.troubles,
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
        "history": _history(await fleet.totals()),
    }


def _history(totals: Mapping[int, FunctionSums | None]) -> dict[str, list[float | None]]:
    """Rates per slot, oldest first. None where nobody watched."""
    found: dict[str, list[float | None]] = {name: [] for name in RATES}
    newest = max(totals, default=0)
    for slot in range(newest - KEPT_SLOTS + 1, newest + 1):
        total = totals.get(slot)
        for name in RATES:
            found[name].append(None if total is None else getattr(total, name) / WATCHED.seconds)
    return found


SCREEN = ConsoleScreen("overview", "Overview", "What the fleet does now, and what is wrong.", data)
