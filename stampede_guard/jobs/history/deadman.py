"""The dead-man signal: a job without success for twice its own rhythm is overdue, whether or not a worker runs.

The caller computes it from the back end's data. So it also works when no worker was alive to report a failure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stampede_guard.jobs.messages import JobView

__all__ = ["PATIENCE", "JobHealth", "deserted", "health_of", "overdue"]

PATIENCE = 2.0
"""A job is overdue after this many of its rhythms without success."""


@dataclass(frozen=True, slots=True)
class JobHealth:
    """`since`: seconds since the last success, or since registration if the job never succeeded.

    `allowed`: the greatest `since` that is not overdue. 0 = the job has no rhythm, so it is never overdue. A paused job
    is not overdue either; after a resume, the seconds since then count.
    """

    job: str
    overdue: bool
    since: float
    allowed: float
    ever_succeeded: bool
    last_error: str = ""

    def __str__(self) -> str:
        what = "has not succeeded for" if self.ever_succeeded else "has never succeeded, for"
        return f"{self.job} {what} {self.since:.0f} s (allowed: {self.allowed:.0f} s)"


def health_of(view: JobView) -> JobHealth:
    """The time is the back end's (`view.at`). The caller's clock does not count."""
    since = max(
        0.0, view.at - max(view.last_success_at, view.registered_at if not view.last_success_at else 0.0)
    )
    allowed = view.rhythm * PATIENCE
    late = not view.paused_at and 0.0 < allowed < min(since, view.at - view.resumed_at)
    return JobHealth(
        view.job, late, since, allowed, bool(view.last_success_at), view.last_error if late else ""
    )


def overdue(views: Iterable[JobView]) -> list[JobHealth]:
    """The overdue jobs. The job that missed the most rhythms comes first."""
    found = [health for view in views if (health := health_of(view)).overdue]
    return sorted(found, key=lambda health: health.since / health.allowed, reverse=True)


def deserted(view: JobView, *, misfire_grace: float) -> bool:
    """Whether its workers are gone: no slot had an outcome for as long as makes a job overdue, and it is not paused."""
    quiet = view.at - max(view.last_slot / 1000, view.scheduled_at, view.resumed_at)
    return bool(view.rhythm) and not view.paused_at and quiet > view.rhythm * PATIENCE + misfire_grace
