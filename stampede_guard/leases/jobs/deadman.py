"""The dead-man signal: a job without success within twice its own rhythm is overdue, whether or not anything runs.

It is read from the back end by whoever asks, so it also tells of the day on which no worker was there to complain.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stampede_guard.leases.runs.words import JobView

__all__ = ["PATIENCE", "Health", "deserted", "health_of", "overdue"]

PATIENCE = 2.0
"""Rhythms without success after which a job is overdue."""


@dataclass(frozen=True, slots=True)
class Health:
    """`since`: seconds since the last success, or since the job was registered where it never had one.

    `allowed`: the seconds it may be, 0 = no rhythm is promised, so nothing is overdue.
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


def health_of(view: JobView) -> Health:
    """Time is the back end's own (`view.at`): the clock of who asks does not count."""
    since = max(
        0.0, view.at - max(view.last_success_at, view.registered_at if not view.last_success_at else 0.0)
    )
    allowed = view.rhythm * PATIENCE
    late = 0.0 < allowed < since
    return Health(view.job, late, since, allowed, bool(view.last_success_at), view.last_error if late else "")


def overdue(views: Iterable[JobView]) -> list[Health]:
    """Those that are overdue, the worst (by rhythms) first."""
    found = [health for view in views if (health := health_of(view)).overdue]
    return sorted(found, key=lambda health: health.since / health.allowed, reverse=True)


def deserted(view: JobView, *, misfire_grace: float) -> bool:
    """For as long as makes a job overdue no slot of its schedule had an outcome: its workers are gone."""
    quiet = view.at - max(view.last_slot / 1000, view.scheduled_at)
    return bool(view.rhythm) and quiet > view.rhythm * PATIENCE + misfire_grace
