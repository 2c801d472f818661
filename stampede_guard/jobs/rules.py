"""The effect of each atomic step of a back end on the rows of a job. Pure; the back end's time is an argument.

The memory back end and the simulation run these functions. The scripts of Redis and the statements of PostgreSQL
implement the same rules. A state machine in the tests compares all three.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from stampede_guard.jobs.messages import (
    Claim,
    ClaimAnswer,
    Claimed,
    Early,
    Ending,
    JobView,
    Outcome,
    Outdated,
    Paused,
    Registration,
    RunView,
    Taken,
)
from stampede_guard.leases.messages import Owner

__all__ = [
    "MOST_RUNS",
    "JobRow",
    "RunRow",
    "beat",
    "claim",
    "finish",
    "follow",
    "job_view",
    "lapsed",
    "pause",
    "record",
    "register",
    "resume",
    "retriable",
    "run_view",
    "take_over",
]

LONGEST_ERROR = 2_000
LONGEST_BY = 200
"""Characters that are kept of the name of the person who paused a job."""
MOST_RUNS = 10_000
"""The most runs that are kept of one job, however young they are. A job that runs every second keeps three hours."""
VANISHED = "the worker vanished"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRow:
    """The data of a job beside its runs. Times are seconds on the back end's clock; 0 = never.

    `pruned_to`: the latest slot whose row was pruned. Such a slot had its outcome, and never gets a second one.
    """

    registration: Registration
    registered_at: float
    scheduled_at: float
    seen_at: float
    seen_for: float
    pruned_to: int = 0
    last_slot: int = 0
    last_success_at: float = 0.0
    last_success_began: float = 0.0
    last_failure_at: float = 0.0
    last_error: str = ""
    paused_at: float = 0.0
    paused_by: str = ""
    resumed_at: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """A slot that is running or has its outcome."""

    slot: int
    run: str
    outcome: Outcome
    attempt: int
    attempts: int
    alive_until: float
    started_at: float
    owner: Owner | None = None
    token: int = 0
    finished_at: float = 0.0
    error: str = ""
    counters: Mapping[str, int | float] = field(default_factory=dict)


def register(row: JobRow | None, registration: Registration, *, now: float) -> JobRow:
    """The greater version wins. Of equal versions the later one wins, so a roll-back to an older schedule works."""
    if row is None:
        return JobRow(
            registration=registration,
            registered_at=now,
            scheduled_at=now,
            seen_at=now,
            seen_for=registration.seen_for,
        )
    if registration.version < row.registration.version:
        return _seen(row, registration, now=now)
    if registration.fingerprint != row.registration.fingerprint:
        # The slots of a schedule begin at its registration. Earlier slots are not missed.
        row = replace(row, scheduled_at=now, seen_for=0.0)
    return _seen(replace(row, registration=registration), registration, now=now)


def follow(row: JobRow, registration: Registration, *, now: float) -> JobRow:
    """A registered worker goes on. Its schedule comes in force again only with a greater version.

    With the rule of `register`, two live deployments would take the schedule from each other for ever.
    """
    if registration.version > row.registration.version:
        return register(row, registration, now=now)
    return _seen(row, registration, now=now)


def _seen(row: JobRow, by: Registration, *, now: float) -> JobRow:
    if by.fingerprint != row.registration.fingerprint:
        return row
    # Another worker may have announced that its next sign comes later than this worker's. Its sign stays valid until
    # then. If the clock was set back, it stays valid for at most the announced seconds from now.
    said = min(row.seen_for, row.seen_at + row.seen_for - now)
    return replace(row, seen_at=now, seen_for=max(by.seen_for, said))


def take_over(row: JobRow, registration: Registration, *, now: float) -> JobRow | None:
    """The row afterwards. None if this schedule is in force already, or workers still follow the one in force."""
    if registration.fingerprint == row.registration.fingerprint:
        return None
    if not row.seen_for or now < row.seen_at + row.seen_for:
        return None
    # No worker has handled the slots since the last sign. Now this worker runs them, or records them as missed.
    return replace(
        row,
        registration=registration,
        scheduled_at=row.seen_at,
        seen_at=now,
        seen_for=registration.seen_for,
    )


def claim(
    job: JobRow | None, run: RunRow | None, asked: Claim, *, now: float
) -> tuple[JobRow | None, RunRow | None, ClaimAnswer]:
    """The rows afterwards, and the answer. No worker may run a job that is not registered, or was forgotten.

    Of a paused job, nothing new begins except by hand. The claim that got the slot before the pause stays valid.
    """
    if job is None:
        return None, run, Outdated("")
    if asked.fingerprint != job.registration.fingerprint:
        return job, run, Outdated(job.registration.schedule)
    scheduled = asked.slot / 1000
    if now < scheduled:
        return job, run, Early(scheduled - now)
    attempt, refused = 1, bool(job.paused_at) and not asked.by_hand
    if run is None and asked.slot <= job.pruned_to:
        return job, run, Taken("missed")
    if run is not None:
        if run.run == asked.run and run.outcome == "running":
            run = replace(run, alive_until=max(run.alive_until, now + asked.alive_for))
            return (
                job,
                run,
                Claimed(run.attempt, now - scheduled, job.last_success_at, job.last_success_began),
            )
        job, run = lapsed(job, run, now=now)
        if refused or not retriable(run, attempts=asked.attempts):
            return job, run, Taken(run.outcome)
        attempt = run.attempt + 1
    elif refused:
        return job, None, Paused(job.paused_by)
    taken = RunRow(
        slot=asked.slot,
        run=asked.run,
        outcome="running",
        attempt=attempt,
        attempts=asked.attempts,
        alive_until=now + asked.alive_for,
        started_at=now,
        owner=asked.owner,
    )
    if not asked.by_hand:
        job = replace(job, last_slot=max(job.last_slot, asked.slot))
    return job, taken, Claimed(attempt, now - scheduled, job.last_success_at, job.last_success_began)


def pause(job: JobRow, *, by: str, now: float) -> JobRow:
    """No slot can be claimed from now on. The first pause counts: a second one changes neither `by` nor the time."""
    return job if job.paused_at else replace(job, paused_at=now, paused_by=by[:LONGEST_BY])


def resume(job: JobRow, *, now: float) -> JobRow:
    """Slots can be claimed again, also those that came due meanwhile: the worker's `misfire_grace` decides on them."""
    return replace(job, paused_at=0.0, paused_by="", resumed_at=now) if job.paused_at else job


def retriable(run: RunRow, *, attempts: int) -> bool:
    """Whether a worker that allows `attempts` attempts may try again. The claim of the run must allow it, too."""
    return run.outcome == "abandoned" and run.attempt < min(run.attempts, attempts)


def lapsed(job: JobRow, run: RunRow, *, now: float) -> tuple[JobRow, RunRow]:
    """A running row is abandoned if its worker sent no heartbeat in time."""
    if run.outcome != "running" or now < run.alive_until:
        return job, run
    run = replace(run, outcome="abandoned", finished_at=now, error=VANISHED)
    return replace(job, last_failure_at=now, last_error=VANISHED), run


def beat(run: RunRow | None, *, mine: str, alive_for: float, token: int, now: float) -> RunRow | None:
    """The row with a later deadline. None if the slot no longer belongs to this run.

    A row that has lapsed, but is not marked as abandoned yet, is renewed: no other worker can have taken it.
    """
    if run is None or run.run != mine or run.outcome != "running":
        return None
    return replace(run, alive_until=max(run.alive_until, now + alive_for), token=max(run.token, token))


def finish(
    job: JobRow, run: RunRow | None, *, mine: str, ending: Ending, now: float
) -> tuple[JobRow, RunRow] | None:
    """The rows afterwards. None if the slot no longer belongs to this run."""
    if run is None or run.run != mine or run.outcome != "running":
        return None
    error = ending.error[:LONGEST_ERROR]
    run = replace(
        run,
        outcome=ending.outcome,
        finished_at=now,
        error=error,
        token=max(run.token, ending.token),
        counters=dict(ending.counters),
    )
    match ending.outcome:
        case "completed":
            # A slow run that began earlier must not move this back: a later run has already handled the later changes.
            began = max(job.last_success_began, run.started_at)
            job = replace(job, last_success_at=now, last_success_began=began)
        case "failed" | "abandoned":
            job = replace(job, last_failure_at=now, last_error=error)
        case "missed" | "skipped":
            pass
        case "running":
            raise ValueError("a run cannot end with the outcome 'running'")
        case _ as never:
            assert_never(never)
    return job, run


def record(
    job: JobRow, run: RunRow | None, *, slot: int, outcome: Outcome, error: str, now: float
) -> tuple[JobRow, RunRow] | None:
    """Give a slot an outcome. None if it has one already, or lies in the future."""
    if run is not None or now < slot / 1000 or slot <= job.pruned_to:
        return None
    row = RunRow(
        slot=slot,
        run="",
        outcome=outcome,
        attempt=0,
        attempts=0,
        alive_until=0.0,
        started_at=0.0,
        finished_at=now,
        error=error[:LONGEST_ERROR],
    )
    return replace(job, last_slot=max(job.last_slot, slot)), row


def to_prune(ended: Sequence[int], *, keep: int, most: int, before: float) -> list[int]:
    """The ended slots to delete: all beyond the newest `most`, and the old ones beyond the newest `keep`.

    Old slots are earlier than `before`, in milliseconds since 1970.
    """
    newest_first = sorted(ended, reverse=True)
    return [
        slot for place, slot in enumerate(newest_first) if place >= most or (place >= keep and slot < before)
    ]


def pruned(job: JobRow, slots: Iterable[int]) -> JobRow:
    """The job after the rows of these slots were deleted."""
    return replace(job, pruned_to=max((job.pruned_to, *slots)))


def job_view(name: str, row: JobRow, *, running: tuple[int, ...], now: float) -> JobView:
    return JobView(
        job=name,
        schedule=row.registration.schedule,
        fingerprint=row.registration.fingerprint,
        rhythm=row.registration.rhythm,
        version=row.registration.version,
        registered_at=row.registered_at,
        scheduled_at=row.scheduled_at,
        at=now,
        seen_at=row.seen_at,
        seen_for=row.seen_for,
        last_slot=row.last_slot,
        last_success_at=row.last_success_at,
        last_failure_at=row.last_failure_at,
        last_error=row.last_error,
        running=running,
        paused_at=row.paused_at,
        paused_by=row.paused_by,
        resumed_at=row.resumed_at,
    )


def run_view(job: str, row: RunRow) -> RunView:
    return RunView(
        job=job,
        slot=row.slot,
        run=row.run,
        outcome=row.outcome,
        attempt=row.attempt,
        attempts=row.attempts,
        owner=row.owner,
        token=row.token,
        started_at=row.started_at,
        finished_at=row.finished_at,
        error=row.error,
        counters=row.counters,
    )
