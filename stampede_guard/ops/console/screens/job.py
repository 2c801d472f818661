"""One job: its runs, how long they took, how they fail, and a time limit that would fit."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import Misuse
from stampede_guard.jobs.history.records import MOST_IN_STATISTICS
from stampede_guard.jobs.history.statistics import statistics
from stampede_guard.jobs.messages import ENDED
from stampede_guard.ops.console.screen import Asked, ConsoleScreen, Parameter
from stampede_guard.ops.console.screens.jobs import LAST, NAME, known_jobs
from stampede_guard.ops.fleet.jobs import attempts, job_line

if TYPE_CHECKING:
    from stampede_guard.ops.console.fleet import Fleet

__all__ = ["SCREEN"]

MOST_SHOWN = 50
IN_FIGURE = 120


async def data(fleet: Fleet, asked: Asked) -> dict[str, Any]:
    jobs, name = known_jobs(fleet), asked["name"]
    view = await jobs.view(name)
    if view is None:
        raise Misuse(f"no worker ever registered a job {name!r}")
    newest = await jobs.history(name, limit=MOST_IN_STATISTICS)
    before = int(asked["before"]) if asked["before"] else None
    outcomes: Any = (asked["outcome"],) if asked["outcome"] else ()
    page = await jobs.history(name, limit=MOST_SHOWN + 1, before=before, outcomes=outcomes)
    figures = statistics(newest)
    return {
        "job": {
            **asdict(job_line(view, newest[:LAST], prefix=jobs.leases.prefix)),
            "here": fleet.jobs is not None and name in fleet.jobs.names,
            "registered_at": view.registered_at,
            "version": view.version,
        },
        "statistics": {
            **asdict(figures),
            "failures": [{**asdict(one), "latest_slot": one.latest_slot / 1000} for one in figures.failures],
            "runs": len(newest),
        },
        "durations": [
            {"slot": one.slot, "outcome": one.outcome, "seconds": one.seconds}
            for one in reversed(attempts(newest[:IN_FIGURE]))
        ],
        "runs": [asdict(one) for one in attempts(page[:MOST_SHOWN])],
        "older": page[MOST_SHOWN - 1].slot if len(page) > MOST_SHOWN else None,
        "outcomes": list(ENDED),
        "outcome": asked["outcome"],
    }


SCREEN = ConsoleScreen(
    "job",
    "Job",
    "One job: its runs, durations and failures.",
    data,
    (
        replace(NAME, required=True),
        Parameter(
            "before", "Only slots before this one, in milliseconds since 1970.", number=(0, 10**15 - 1)
        ),
        Parameter("outcome", "Only runs that ended so.", choices=("running", *ENDED)),
    ),
    listed=False,
    below="jobs",
)
