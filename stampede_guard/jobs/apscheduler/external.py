"""Slots of schedules that another scheduler keeps. It decides when a slot is due; the back end decides who runs it.

The scheduler of each worker fires by itself, as before. The worker claims each firing first, and runs it if it gets it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from stampede_guard.errors import Misuse, StoreUnavailable
from stampede_guard.jobs.backends.protocol import RunBackend
from stampede_guard.jobs.execution import STOPPED, Execution
from stampede_guard.jobs.history.deadman import deserted
from stampede_guard.jobs.job import MISFIRE_GRACE, Job, Terms, terms_of
from stampede_guard.jobs.keeping import KEEP, KEEP_FOR, OPERATOR_TIMEOUT, PRUNE_EVERY
from stampede_guard.jobs.messages import (
    Claim,
    ClaimAnswer,
    Claimed,
    Early,
    Ending,
    JobView,
    Outdated,
    Paused,
    Registration,
    Taken,
)
from stampede_guard.jobs.reporting import log
from stampede_guard.jobs.run import Run
from stampede_guard.jobs.schedules.schedule import moment
from stampede_guard.leases.keeping.loop_state import LoopState

if TYPE_CHECKING:
    from stampede_guard.jobs.scheduler import Jobs

__all__ = ["FOR_EVER", "ExternalSchedule", "ForeignSlots", "described", "foreign_terms", "remember"]

RETRIES = (0.1, 0.5)
"""Seconds from a claim without an answer to the next. They are short: the scheduler waits to begin its next firing."""
FOR_EVER = 10 * 365 * 86_400.0
"""Stands for APScheduler's misfire grace of None."""
MOST_KNOWN = 10_000
T = TypeVar("T")
_OWN = {
    "coalesce": "set it in add_job() or add_schedule()",
    "retry_abandoned": "a firing runs at most once; use @jobs.cron for a job that must run again after a crash",
}
_EACH_WORKERS = re.compile(r",? ?start_(?:date|time)='[^']*'| at 0x[0-9a-f]+")
"""Parts of a trigger's text that differ between workers, such as a start time that was not given."""


@dataclass(frozen=True, slots=True)
class ExternalSchedule:
    """A schedule that another scheduler keeps. `seconds`: between two slots, 0 = not known."""

    text: str
    seconds: float = 0.0

    def after(self, slot: int) -> int | None:
        return slot + round(self.seconds * 1000) if self.seconds else None


def described(trigger: object, zone: object = "") -> str:
    """The text of a trigger for `ExternalSchedule`. It is the same in each worker."""
    return _EACH_WORKERS.sub("", f"{trigger} {zone}").strip()


def foreign_terms(given: Mapping[str, Any], **defaults: Any) -> Terms:
    """Raises `Misuse` for an unknown name or one that APScheduler decides, and whatever `Terms` raises."""
    for name in _OWN.keys() & given.keys():
        raise Misuse(f"{name} cannot be set for jobs of APScheduler: {_OWN[name]}")
    return terms_of({**defaults, **given})


def remember(known: dict[str, T], name: str, what: T) -> None:
    """Keep only the latest names. Otherwise a program that adds jobs with new ids at run time would fill the memory."""
    known[name] = what
    while len(known) > MOST_KNOWN:
        del known[next(iter(known))]


class ForeignSlots:
    """Claims slots for one `Jobs`. It registers a job when its first slot comes, and when its schedule changes."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._registered: dict[str, str] = {}
        self._outdated: set[str] = set()
        self._prune_at: dict[str, float] = {}

    async def register(self, name: str, schedule: ExternalSchedule, terms: Terms) -> None:
        """Register a job before its first slot, so that it becomes overdue if none ever comes. Raises `StoreError`."""
        job = Job(name, schedule, _nothing, terms)
        await self._counts(*self._place(job), terms)

    async def run(
        self,
        name: str,
        schedule: ExternalSchedule,
        slot: int,
        function: Callable[[Run], Awaitable[Any]],
        terms: Terms,
        *,
        late: float = 0.0,
        skipped: str = "",
    ) -> Ending | Taken:
        """How the run ended, or `Taken` if another worker has the slot. Raises `StoreError`: then nothing ran.

        `late`: seconds since the due time, on the clock of the scheduler that fires; a slot that is later than
        `misfire_grace` is missed. `skipped`: the reason not to run it; then its outcome is "skipped". If this call is
        cancelled before it calls the function, the slot stays as it was or is abandoned. For a later cancellation see
        `Execution`.
        """
        job = Job(name, schedule, function, terms)
        part, runs, registration = self._place(job)
        timeout = terms.timing.request_timeout
        if not await self._counts(part, runs, registration, terms):
            return Taken("missed")
        part.leave(self._keep(part, runs, registration.job), name=f"looks after {name}")
        claim = Claim(
            job=registration.job,
            slot=slot,
            run=part.world.fresh(),
            owner=part.owner,
            fingerprint=registration.fingerprint,
            alive_for=terms.alive_for,
        )
        asked_at, answer = await self._answered(part, runs, claim, timeout)
        while isinstance(answer, Early):
            # This worker's clock is ahead of the back end's. The slot begins by the back end's clock.
            await part.pause(answer.remaining)
            asked_at, answer = await self._answered(part, runs, claim, timeout)
        if not isinstance(answer, Claimed):
            return await self._not_claimed(runs, registration, slot, answer, timeout)
        if late > terms.misfire_grace or skipped:
            why = f"it was fired {late:.1f} s late, misfire_grace={terms.misfire_grace:g} s"
            ending = Ending(outcome="skipped" if skipped else "missed", error=skipped or why)
            await part.carry_out(
                runs.finish(registration.job, slot=slot, run=claim.run, ending=ending, timeout=timeout),
                name=f"ends a slot of {name}",
            )
            return ending
        execution = Execution(
            self._jobs.leases,
            part,
            runs,
            job,
            slot=slot,
            run=claim.run,
            claimed=answer,
            asked_at=asked_at,
        )
        return await self._jobs.carry(execution, part)

    def _place(self, job: Job) -> tuple[LoopState, RunBackend, Registration]:
        """The part, back end and registration of a job. Raises `Misuse` for an invalid name or one already in use."""
        if job.name in self._jobs.names:
            raise Misuse(
                f"two jobs have the name {job.name!r}: one of another scheduler, and one of jobs.cron or jobs.every; "
                "give one of them another id"
            )
        self._jobs.leases.full(job.name)
        part = self._jobs.leases.part()
        return part, self._jobs.runs(), job.registration(part.prefix, self._jobs.version)

    # --- the schedule in force

    async def _counts(
        self, part: LoopState, runs: RunBackend, registration: Registration, terms: Terms
    ) -> bool:
        """Whether this worker's schedule is in force. If it is not, that is logged once."""
        job, timeout = registration.job, terms.timing.request_timeout
        if self._registered.get(job) != registration.fingerprint:
            view = await runs.register(registration, timeout=timeout)
            remember(self._registered, job, registration.fingerprint)
        elif job in self._outdated:
            found = await runs.view(job, timeout=timeout)
            if found is None or self._left(found, registration, terms):
                found = await runs.register(registration, timeout=timeout)
            view = found
        else:
            return True
        if view.fingerprint != registration.fingerprint:
            self._tell_outdated(registration, view.schedule)
            return False
        if job in self._outdated:
            self._outdated.discard(job)
            log.warning("job %s: the schedule %r is in force again", job, registration.schedule)
        return True

    @staticmethod
    def _left(view: JobView, registration: Registration, terms: Terms) -> bool:
        """Whether no worker follows the schedule in force any more. Without a rhythm that is unknown, so it is True."""
        if view.fingerprint == registration.fingerprint:
            return False
        return not (view.rhythm or view.seen_for) or deserted(
            view, misfire_grace=min(terms.misfire_grace, MISFIRE_GRACE)
        )

    def _tell_outdated(self, registration: Registration, schedule: str) -> None:
        if registration.job not in self._outdated:
            self._outdated.add(registration.job)
            log.warning(
                "job %s: a later deployment set the schedule %r; this worker has %r and runs no slots",
                registration.job,
                schedule,
                registration.schedule,
            )

    async def _not_claimed(
        self, runs: RunBackend, registration: Registration, slot: int, answer: ClaimAnswer, timeout: float
    ) -> Ending | Taken:
        if isinstance(answer, Outdated):
            return await self._refused(runs, registration, slot, answer, timeout)
        if isinstance(answer, Paused):
            return await self._paused(runs, registration.job, slot, answer, timeout)
        assert isinstance(answer, Taken)
        return answer

    async def _refused(
        self, runs: RunBackend, registration: Registration, slot: int, answer: Outdated, timeout: float
    ) -> Taken:
        if answer.schedule:
            self._tell_outdated(registration, answer.schedule)
            return Taken("missed")
        # An operator made the back end forget the job, or the server lost its data. Nobody can know whether the slot
        # has run, so it is missed.
        why = "the back end did not know the job any more"
        await runs.register(registration, timeout=timeout)
        await runs.record(registration.job, slots=[slot], outcome="missed", error=why, timeout=timeout)
        log.error("job %s, slot %s: missed: %s", registration.job, moment(slot).isoformat(), why)
        return Taken("missed")

    async def _paused(
        self, runs: RunBackend, job: str, slot: int, answer: Paused, timeout: float
    ) -> Ending | Taken:
        """The other scheduler does not fire again for this slot, so it is missed. The first worker records it."""
        why = f"the job is paused, by {answer.by}"
        if not await runs.record(job, slots=[slot], outcome="missed", error=why, timeout=timeout):
            return Taken("missed")
        log.warning("job %s, slot %s: missed: %s", job, moment(slot).isoformat(), why)
        return Ending(outcome="missed", error=why)

    # --- the slot

    async def _answered(
        self, part: LoopState, runs: RunBackend, claim: Claim, timeout: float
    ) -> tuple[float, ClaimAnswer]:
        # 1. this worker sends the claim, 2. the task that fired is cancelled, 3. this worker gets the slot, and no
        # worker runs it. So another task waits for the answer and gives the slot up.
        work = part.begin(self._asked(part, runs, claim, timeout), name=f"claims a slot of {claim.job}")
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            part.leave(self._give_up(runs, claim, work, timeout), name=f"gives up a slot of {claim.job}")
            raise
        return work.result()

    @staticmethod
    async def _give_up(
        runs: RunBackend, claim: Claim, work: asyncio.Task[tuple[float, ClaimAnswer]], timeout: float
    ) -> None:
        _, answer = await work
        if isinstance(answer, Claimed):
            ending = Ending(outcome="abandoned", error=STOPPED)
            await runs.finish(claim.job, slot=claim.slot, run=claim.run, ending=ending, timeout=timeout)

    @staticmethod
    async def _asked(
        part: LoopState, runs: RunBackend, claim: Claim, timeout: float
    ) -> tuple[float, ClaimAnswer]:
        """The answer, and when the claim was sent. If an answer is lost, claim again: the slot may be ours."""
        for pause in RETRIES:
            asked_at = part.world.now()
            try:
                return asked_at, await runs.claim(claim, timeout=timeout)
            except StoreUnavailable:
                await part.pause(pause)
        return part.world.now(), await runs.claim(claim, timeout=timeout)

    async def _keep(self, part: LoopState, runs: RunBackend, job: str) -> None:
        """Do what a `Follower` does for its job: find vanished runs, and keep the history within its bounds."""
        for run in await runs.sweep(job, timeout=OPERATOR_TIMEOUT):
            log.error("job %s, slot %s: its worker vanished", job, moment(run.slot).isoformat())
        if part.world.now() >= self._prune_at.get(job, 0.0):
            remember(self._prune_at, job, part.world.now() + PRUNE_EVERY * (0.5 + part.world.draw()))
            await runs.prune(job, keep=KEEP, older_than=KEEP_FOR, timeout=OPERATOR_TIMEOUT)


async def _nothing(_run: Run) -> None: ...
