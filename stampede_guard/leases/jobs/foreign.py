"""Slots of schedules that another scheduler keeps: it says when, the back end says who.

Each worker's scheduler fires by itself, as before; what it fires is claimed first, and run where it was to be had.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stampede_guard.errors import StoreUnavailable
from stampede_guard.leases.jobs.execution import Execution
from stampede_guard.leases.jobs.job import Job, Terms
from stampede_guard.leases.jobs.keeping import KEEP, KEEP_FOR, OPERATOR_TIMEOUT, PRUNE_EVERY
from stampede_guard.leases.jobs.run import Run
from stampede_guard.leases.jobs.schedule import moment
from stampede_guard.leases.jobs.telling import log
from stampede_guard.leases.part import Part
from stampede_guard.leases.runs.backend import RunBackend
from stampede_guard.leases.runs.words import Claim, ClaimAnswer, Claimed, Early, Ending, Outdated, Taken

if TYPE_CHECKING:
    from stampede_guard.leases.jobs.scheduler import Jobs

__all__ = ["ForeignSlots", "Kept"]

RETRIES = (0.1, 0.5)
"""Seconds from a claim without an answer to the next: short, for the other scheduler has its next firing to begin."""


@dataclass(frozen=True, slots=True)
class Kept:
    """A schedule that is kept elsewhere: what it says of itself, and seconds between two slots, 0 = not known."""

    text: str
    seconds: float = 0.0

    def after(self, slot: int) -> int | None:
        return slot + round(self.seconds * 1000) if self.seconds else None


class ForeignSlots:
    """Claims for one `Jobs`. A job is registered when its first slot comes, and when its schedule changes."""

    def __init__(self, jobs: Jobs) -> None:
        self._jobs = jobs
        self._registered: dict[str, str] = {}
        self._prune_at: dict[str, float] = {}

    async def run(
        self,
        name: str,
        schedule: Kept,
        slot: int,
        function: Callable[[Run], Awaitable[Any]],
        terms: Terms,
        *,
        late: float = 0.0,
    ) -> Ending | Taken:
        """How the run ended, or `Taken` where the slot is another worker's. Raises `StoreError`: then nothing ran.

        `late`: seconds since it should have been fired, by the clock of who fires; beyond `misfire_grace` it is missed.
        """
        part, runs = self._jobs.leases.part(), self._jobs.runs()
        job = Job(name, schedule, function, terms)
        registration = job.registration(part.prefix, self._jobs.version)
        timeout = terms.timing.request_timeout
        if self._registered.get(name) != registration.fingerprint:
            await runs.register(registration, timeout=timeout)
            self._registered[name] = registration.fingerprint
        part.leave(self._keep(part, runs, registration.job), name=f"looks after {name}")
        claim = Claim(
            job=registration.job,
            slot=slot,
            run=part.world.fresh(),
            owner=part.owner,
            fingerprint=registration.fingerprint,
            alive_for=terms.alive_for,
        )
        asked_at, answer = await self._asked(part, runs, claim, timeout)
        while isinstance(answer, Early):
            # This worker's clock is ahead of the back end's: the slot begins when that says so.
            await part.pause(answer.remaining)
            asked_at, answer = await self._asked(part, runs, claim, timeout)
        if isinstance(answer, Outdated):
            # Registered again at the next slot, in case this worker's schedule counts by then.
            self._registered.pop(name, None)
            return Taken("missed")
        if not isinstance(answer, Claimed):
            return answer
        if late > terms.misfire_grace:
            why = f"it was fired {late:.1f} s late, misfire_grace={terms.misfire_grace:g} s"
            missed = Ending(outcome="missed", error=why)
            await runs.finish(registration.job, slot=slot, run=claim.run, ending=missed, timeout=timeout)
            return missed
        execution = Execution(
            self._jobs.leases,
            part,
            runs,
            job,
            slot=slot,
            run=claim.run,
            attempt=answer.attempt,
            asked_at=asked_at,
            last_success_at=answer.last_success_at,
        )
        return await execution.perform()

    @staticmethod
    async def _asked(part: Part, runs: RunBackend, claim: Claim, timeout: float) -> tuple[float, ClaimAnswer]:
        """The answer, and when it was asked for. A lost one is asked for again: the slot may be ours."""
        for pause in RETRIES:
            asked_at = part.world.now()
            try:
                return asked_at, await runs.claim(claim, timeout=timeout)
            except StoreUnavailable:
                await part.pause(pause)
        return part.world.now(), await runs.claim(claim, timeout=timeout)

    async def _keep(self, part: Part, runs: RunBackend, job: str) -> None:
        """What a follower does for its job: vanished runs are noticed, and the history stays within its bounds."""
        for run in await runs.sweep(job, timeout=OPERATOR_TIMEOUT):
            log.error("job %s, slot %s: its worker vanished", job, moment(run.slot).isoformat())
        if part.world.now() >= self._prune_at.get(job, 0.0):
            self._prune_at[job] = part.world.now() + PRUNE_EVERY * (0.5 + part.world.draw())
            await runs.prune(job, keep=KEEP, older_than=KEEP_FOR, timeout=OPERATOR_TIMEOUT)
