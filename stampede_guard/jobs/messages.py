"""The messages between a scheduler and the back end of its runs, as data.

A *slot* is (job, scheduled time in UTC); it may run once. A *claim* takes it. A *run* is one row with the outcome of a
slot. Times are seconds since 1970, on the back end's clock. Only `slot` is whole milliseconds, because it is an
identity and must not be rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stampede_guard.leases import checks
from stampede_guard.leases.messages import Owner

__all__ = [
    "ENDED",
    "Claim",
    "ClaimAnswer",
    "Claimed",
    "Early",
    "Ending",
    "JobPoll",
    "JobView",
    "Outcome",
    "Outdated",
    "Paused",
    "Registration",
    "RunView",
    "PollAnswer",
    "Taken",
]

Outcome = Literal["running", "completed", "failed", "missed", "skipped", "abandoned"]
"""`missed`: no worker was there in time. `skipped`: another run of the job was still going on. `abandoned`: its worker
vanished."""

PAUSED = "the job was paused"
"""The error of slots that were missed through a pause."""
ENDED: tuple[Outcome, ...] = ("completed", "failed", "missed", "skipped", "abandoned")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A worker reports that a job exists. `schedule`: for people. `fingerprint`: changes with the schedule.

    `rhythm`: the longest time between two slots, in seconds; 0 = none is promised. `version`: if old and new workers
    disagree about the schedule, the greater version wins; of equal versions, the latest registration wins. `seen_for`:
    if workers send no sign for so many seconds, no worker follows the schedule any more; 0 = it is followed without
    signs.
    """

    job: str
    schedule: str
    fingerprint: str
    rhythm: float
    version: int = 0
    seen_for: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A worker wants to run a slot. `run`: a UUID; a repeated claim with the same UUID is the same claim.

    `alive_for`: a run without heartbeats for so many seconds counts as vanished. `attempts`: the most attempts in all;
    1 = at most once, so the slot of a vanished worker stays abandoned. It is stored with the run. So no other worker
    retries a run that was claimed as at most once. `by_hand`: the slot is not of the schedule, so `last_slot` stays,
    and a paused job runs it as well.
    """

    job: str
    slot: int
    run: str
    owner: Owner
    fingerprint: str
    alive_for: float
    attempts: int = 1
    by_hand: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobPoll:
    """A worker's regular request about one of its jobs. `attempts`: as in `Claim`; 1 = nothing is retried."""

    registration: Registration
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Claimed:
    """The worker has the slot. `late`: seconds since the scheduled time, on the back end's clock.

    `last_success_at`: as in `JobView`, at this moment. `last_success_began`: the latest time at which a run that has
    completed was claimed, 0 = never.
    """

    attempt: int
    late: float
    last_success_at: float = 0.0
    last_success_began: float = 0.0


@dataclass(frozen=True, slots=True)
class Early:
    """By the back end's clock the slot begins in `remaining` seconds. Nothing was changed."""

    remaining: float


@dataclass(frozen=True, slots=True)
class Taken:
    """Another worker has the slot. It has an outcome, or is running."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Outdated:
    """Workers of a later deployment set another schedule (`schedule`). Nothing was changed. "" = an unknown job."""

    schedule: str


@dataclass(frozen=True, slots=True)
class Paused:
    """The job is paused, so the slot was not taken. It may be claimed after the resume. `by`: who paused the job."""

    by: str


ClaimAnswer = Claimed | Early | Taken | Outdated | Paused


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended. `error`: type and message, cut to 2,000 characters. `counters`: reported by the job.

    `token`: of the run's lease, 0 = it had none.
    """

    outcome: Outcome
    error: str = ""
    token: int = 0
    counters: Mapping[str, int | float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Without a stored outcome, the run would count as abandoned, and might run again.
        object.__setattr__(self, "error", checks.storable(self.error))


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A row of a job's history. `token`: of the run's lease, 0 = none. `finished_at` 0 = not yet.

    `attempts`: the most attempts that its claim allows. An abandoned run with `attempt < attempts` may be retried.
    """

    job: str
    slot: int
    run: str
    outcome: Outcome
    attempt: int = 1
    attempts: int = 1
    owner: Owner | None = None
    token: int = 0
    started_at: float = 0.0
    finished_at: float = 0.0
    error: str = ""
    counters: Mapping[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobView:
    """A job as the back end knows it. `at`: when this was read. `last_slot`: the latest claimed or recorded, 0 = none.

    `scheduled_at`: when its schedule came in force. `seen_at`: the last sign of a worker that follows it. `seen_for`:
    how long that sign is valid, see `Registration`. `last_success_at`: when a run last completed, 0 = never.
    `running`: slots that are running now. `paused_at`: when it was paused, 0 = it is not paused. `paused_by`: who
    paused it. `resumed_at`: when it was last resumed, 0 = never.
    """

    job: str
    schedule: str
    fingerprint: str
    rhythm: float
    version: int
    registered_at: float
    scheduled_at: float
    at: float
    seen_at: float = 0.0
    seen_for: float = 0.0
    last_slot: int = 0
    last_success_at: float = 0.0
    last_failure_at: float = 0.0
    last_error: str = ""
    running: tuple[int, ...] = ()
    paused_at: float = 0.0
    paused_by: str = ""
    resumed_at: float = 0.0


@dataclass(frozen=True, slots=True)
class PollAnswer:
    """The answer to a `JobPoll`. `view`: the job, None = it is not known. `vanished`: runs that this look marked.

    `again`: abandoned runs that may be retried, the oldest slots first.
    """

    view: JobView | None
    vanished: tuple[RunView, ...] = ()
    again: tuple[RunView, ...] = ()
