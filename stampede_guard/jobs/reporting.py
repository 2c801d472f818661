"""Reports the outcome of slots: a log line each, and an event for the hooks."""

from __future__ import annotations

import logging

from stampede_guard import events
from stampede_guard.jobs.history.deadman import health_of
from stampede_guard.jobs.messages import Ending, JobView
from stampede_guard.jobs.schedules.schedule import moment
from stampede_guard.leases import checks
from stampede_guard.leases.keeping.loop_state import LoopState
from stampede_guard.leases.owner import called

__all__ = ["ended", "log", "punctual", "started", "text_of", "unfollowed", "unsettled"]

log = logging.getLogger("stampede_guard.jobs")


def started(part: LoopState, job: str, slot: int, run: str, attempt: int) -> None:
    log.info(
        "job %s, slot %s: %s runs it%s",
        job, moment(slot).isoformat(), called(part.owner), f" (attempt {attempt})" if attempt > 1 else "",
    )  # fmt: skip
    if part.hooks:
        part.hooks.tell(events.JobStarted(_function(part, job), job, slot, run, attempt))


def ended(part: LoopState, job: str, slot: int, attempt: int, ending: Ending, seconds: float) -> None:
    level = logging.INFO if ending.outcome in ("completed", "skipped") else logging.ERROR
    log.log(
        level,
        "job %s, slot %s: %s after %.1f s%s",
        job, moment(slot).isoformat(), ending.outcome, seconds, f": {ending.error}" if ending.error else "",
    )  # fmt: skip
    if part.hooks:
        error = ending.error.partition(":")[0] if ending.outcome == "failed" else ""
        part.hooks.tell(
            events.JobEnded(_function(part, job), job, slot, ending.outcome, seconds, attempt, error)
        )


def unsettled(job: str, slot: int, ending: Ending, error: Exception | None) -> None:
    why = str(error) if error is not None else "another run has the slot by now"
    log.error(
        "job %s, slot %s: the outcome %r is not stored: %s",
        job, moment(slot).isoformat(), ending.outcome, why,
    )  # fmt: skip


def punctual(part: LoopState, view: JobView, *, was_overdue: bool | None) -> bool:
    """Tell the hooks if the job has become overdue, or no longer is. Returns whether it is overdue.

    `was_overdue`: None at the first look, which tells in any case.
    """
    health = health_of(view)
    if health.overdue != was_overdue and part.hooks:
        function = _function(part, view.job)
        part.hooks.tell(
            events.JobOverdue(function, view.job, health.since)
            if health.overdue
            else events.JobOnTime(function, view.job)
        )
    return health.overdue


def unfollowed(part: LoopState, job: str) -> None:
    """This worker no longer follows a job that was overdue."""
    if part.hooks:
        part.hooks.tell(events.JobOnTime(_function(part, job), job))


def text_of(error: BaseException) -> str:
    """Type and message, as text that every back end can store."""
    try:
        message = str(error)
    except Exception:
        message = "(it has no text)"
    return checks.storable(f"{type(error).__name__}: {message}")


def _function(part: LoopState, name: str) -> str:
    return name.removeprefix(part.prefix).partition("#")[0]
