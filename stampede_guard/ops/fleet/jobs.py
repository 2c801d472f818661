"""Jobs as people look at them: what runs next, what ran last, what is late. Pure, from what the back end keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stampede_guard.jobs.history.deadman import health_of
from stampede_guard.jobs.messages import JobView, Outcome, RunView
from stampede_guard.jobs.schedules.texts import schedule_of
from stampede_guard.leases.owner import called

__all__ = ["Attempt", "JobLine", "attempts", "job_line"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLine:
    """A job in a table. Times are seconds since 1970 on the back end's clock; 0 = never.

    `next_slot`: None if the schedule is of another scheduler, or has ended. `owners`: the workers that run it now, by
    their names. `last`: the newest outcomes, newest first. `overdue_by`: seconds beyond the allowed time without a
    success; 0 = not overdue. `paused_by`: "" = not paused.
    """

    name: str
    schedule: str
    at: float
    next_slot: float | None
    running: int
    owners: tuple[str, ...]
    last: tuple[Outcome, ...]
    last_success_at: float
    last_failure_at: float
    last_error: str
    overdue_by: float
    paused_at: float
    paused_by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A run in a table or a figure. `seconds`: how long it took; None = it has no end yet, or nothing began."""

    slot: float
    outcome: Outcome
    seconds: float | None
    owner: str
    attempt: int
    token: int
    error: str
    counters: dict[str, int | float]


def job_line(view: JobView, runs: Sequence[RunView], *, prefix: str) -> JobLine:
    """`runs`: the newest of its history, newest first. `prefix`: of the namespace, left out of the name."""
    health = health_of(view)
    schedule = schedule_of(view.schedule, view.fingerprint)
    following = schedule.after(int(view.at * 1000)) if schedule is not None else None
    owners = [called(run.owner) for run in runs if run.outcome == "running" and run.owner is not None]
    return JobLine(
        name=view.job.removeprefix(prefix),
        schedule=view.schedule,
        at=view.at,
        next_slot=None if following is None else following / 1000,
        running=len(view.running),
        owners=tuple(dict.fromkeys(owners)),
        last=tuple(run.outcome for run in runs if run.outcome != "running"),
        last_success_at=view.last_success_at,
        last_failure_at=view.last_failure_at,
        last_error=view.last_error,
        overdue_by=health.since - health.allowed if health.overdue else 0.0,
        paused_at=view.paused_at,
        paused_by=view.paused_by,
    )


def attempts(runs: Sequence[RunView]) -> list[Attempt]:
    """In the order given."""
    return [
        Attempt(
            slot=run.slot / 1000,
            outcome=run.outcome,
            seconds=max(0.0, run.finished_at - run.started_at)
            if run.finished_at and run.started_at
            else None,
            owner=called(run.owner) if run.owner is not None else "",
            attempt=run.attempt,
            token=run.token,
            error=run.error,
            counters=dict(run.counters),
        )
        for run in runs
    ]
