"""Events of `stampede_guard.jobs`."""

from __future__ import annotations

from dataclasses import dataclass

from stampede_guard.events.about import AboutEntry

__all__ = [
    "JobEnded",
    "JobEvent",
    "JobOnTime",
    "JobOverdue",
    "JobStarted",
]


@dataclass(frozen=True, slots=True)
class JobStarted(AboutEntry):
    """A job's function is called. `slot`: its scheduled time, in milliseconds since 1970; `run`: a UUID.

    One per slot of a job that this worker claimed; only `JobEnded` if it did not run.
    """

    slot: int
    run: str
    attempt: int


@dataclass(frozen=True, slots=True)
class JobEnded(AboutEntry):
    """A slot that this worker claimed has its outcome, after `seconds`. `error`: the exception's class name, or
    empty.

    One per slot of a job that this worker claimed; only `JobEnded` if it did not run.
    """

    slot: int
    outcome: str
    seconds: float
    attempt: int
    error: str = ""


@dataclass(frozen=True, slots=True)
class JobOverdue(AboutEntry):
    """A job has had no success for `since` seconds: more than twice its rhythm. Nobody tells this if no worker runs.

    One per job, in each worker that begins to follow it, and then for each change.
    """

    since: float


@dataclass(frozen=True, slots=True)
class JobOnTime(AboutEntry):
    """It is not overdue, or this worker no longer follows it.

    One per job, in each worker that begins to follow it, and then for each change.
    """


JobEvent = JobStarted | JobEnded | JobOverdue | JobOnTime
