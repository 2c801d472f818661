"""What a scheduler and the back end of its runs say to each other, as data.

A *slot* is (job, scheduled time in UTC); what may run once. A *claim* takes it. A *run* is what became of it: one row
with one outcome. Times are the back end's, in seconds since 1970, but for `slot`, which is whole milliseconds: it is
an identity and must not be rounded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from stampede_guard.leases.words import Owner

__all__ = [
    "ENDED",
    "Claim",
    "ClaimAnswer",
    "Claimed",
    "Early",
    "Ending",
    "JobView",
    "Look",
    "Outcome",
    "Outdated",
    "Registration",
    "RunView",
    "Seen",
    "Taken",
]

Outcome = Literal["running", "completed", "failed", "missed", "skipped", "abandoned"]
"""`missed`: nobody was there in time. `skipped`: another run of the job was still going on. `abandoned`: its worker
vanished."""

ENDED: tuple[Outcome, ...] = ("completed", "failed", "missed", "skipped", "abandoned")


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
    """A worker tells that a job exists. `schedule`: for people. `fingerprint`: changes with the schedule.

    `rhythm`: the longest time between two slots, in seconds; 0 = none is promised. `version`: the greater wins where
    old and new workers disagree about the schedule; among equals, the last who registered. `seen_for`: seconds after
    which, without another sign of somebody who follows it, the schedule counts as left by all; 0 = it never does.
    """

    job: str
    schedule: str
    fingerprint: str
    rhythm: float
    version: int = 0
    seen_for: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A worker wants to run a slot. `run`: a UUID; asked again with it, it is the same question.

    `alive_for`: seconds after which it counts as vanished if it says nothing. `attempts`: how many workers may try in
    all; 1 = at most once, a vanished one's slot stays abandoned. It is kept with the run: what was begun as at most
    once is not tried again by somebody who would. `by_hand`: a slot beside the schedule, which says nothing of how far
    the schedule was followed.
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
class Look:
    """What a worker asks about one of its jobs now and then. `attempts`: as in `Claim`, 1 = nothing is tried again."""

    registration: Registration
    attempts: int = 1


@dataclass(frozen=True, slots=True)
class Claimed:
    """The slot is the asker's. `late`: seconds since its scheduled time, by the back end's clock.

    `last_success_at`: as in `JobView`, at this moment. `last_success_began`: when the latest of the runs that completed
    was claimed, 0 = never.
    """

    attempt: int
    late: float
    last_success_at: float = 0.0
    last_success_began: float = 0.0


@dataclass(frozen=True, slots=True)
class Early:
    """By the back end's clock the slot is still to come, in `remaining` seconds. Nothing was changed."""

    remaining: float


@dataclass(frozen=True, slots=True)
class Taken:
    """The slot has an outcome, or is about to: another worker's."""

    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Outdated:
    """The job has another schedule by now (`schedule`), from workers that were deployed later. Nothing was changed."""

    schedule: str


ClaimAnswer = Claimed | Early | Taken | Outdated


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """How a run ended. `error`: type and message, cut to 2,000 characters. `counters`: what the job counted.

    `token`: of the lease it ran under, 0 = it had none.
    """

    outcome: Outcome
    error: str = ""
    token: int = 0
    counters: Mapping[str, int | float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunView:
    """A row of a job's history. `token`: of the lease under which it ran, 0 = none. `finished_at` 0 = not yet.

    `attempts`: how many its claim allowed in all; an abandoned one with `attempt < attempts` is to be tried again.
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
    """A job as the back end knows it. `at`: when this was read. `last_slot`: the latest one with an outcome, 0 =
    none.

    `scheduled_at`: since when it has this schedule. `seen_at`: when somebody who follows it last said so, `seen_for`:
    how long that is good for, see `Registration`. `last_success_at`: when a run last completed, 0 = never.
    `running`: slots that are running now.
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


@dataclass(frozen=True, slots=True)
class Seen:
    """The answer to a `Look`. `view`: what counts now, None = the job is not known. `vanished`: marked by this look.

    `again`: abandoned runs that may be tried once more, the oldest slots first.
    """

    view: JobView | None
    vanished: tuple[RunView, ...] = ()
    again: tuple[RunView, ...] = ()
