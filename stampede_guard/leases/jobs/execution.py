"""One run from its claim to its end: under a lease, heard of now and then, within its time limit."""

from __future__ import annotations

import asyncio
import contextlib
import math
from datetime import UTC, datetime
from typing import Any

from stampede_guard.errors import LeaseLost, LeaseTaken, StoreError, StoreRefused
from stampede_guard.leases.core.grants import GONE_FOR
from stampede_guard.leases.exclusive import SKIPPED
from stampede_guard.leases.hold import Hold
from stampede_guard.leases.jobs import telling
from stampede_guard.leases.jobs.job import Job
from stampede_guard.leases.jobs.run import Run
from stampede_guard.leases.jobs.schedule import moment
from stampede_guard.leases.lease import Lease
from stampede_guard.leases.nested import inside
from stampede_guard.leases.owner import called
from stampede_guard.leases.part import Part
from stampede_guard.leases.runs.backend import RunBackend
from stampede_guard.leases.runs.words import Claimed, Ending, Outcome
from stampede_guard.leases.telling import title_of

__all__ = ["STOPPED", "Execution"]

STOPPED = "the worker was stopped"
LONGEST_WAIT = 3_600.0
"""Seconds for which a slot waits for a back end that grants no leases, also where it may begin at any time."""
NOT_RUN = "it returned SKIPPED: what it called was running already"


class Execution:
    """A slot that was claimed with the question of `asked_at`, on this worker's clock.

    `perform()` raises nothing but a cancellation and what ends the program, and gives the slot its outcome before: with
    the back end away it tries to for as long as the slot counts as alive, or until it has to `hurry()`.
    """

    def __init__(
        self,
        house: Any,
        part: Part,
        runs: RunBackend,
        job: Job,
        *,
        slot: int,
        run: str,
        claimed: Claimed,
        asked_at: float,
    ) -> None:
        self._house = house
        self._part = part
        self._runs = runs
        self._job = job
        self._slot = slot
        self._run = run
        self._attempt = claimed.attempt
        self._claimed = claimed
        self._full = part.prefix + job.name
        self._token = 0
        self._timing = job.terms.timing
        self._ours_until = asked_at + self._trusted
        self._given_up_at = math.inf
        self.view: Run | None = None
        self.ending: Ending | None = None
        """How it ended, once that is known."""

    def __str__(self) -> str:
        return f"job {self._full}, slot {moment(self._slot).isoformat()}:"

    def hurry(self, seconds: float) -> None:
        """The worker is stopped: so long for what is left to do, writing the outcome down included."""
        self._given_up_at = self._part.world.now() + seconds
        if self.view is not None:
            self.view.patience = min(self.view.patience, seconds * 2 / 3)

    async def perform(self) -> Ending:
        begun = self._part.world.now()
        # No task of the part's: that waits for its requests when it is closed, and this ends with the run.
        beating = asyncio.get_running_loop().create_task(
            self._beat(), name=f"stampede_guard beats for {self._full}"
        )
        try:
            ending = await self._outcome()
        except asyncio.CancelledError:
            # The program ends: the slot is free for another attempt at once, where the job has more than one.
            await self._settle(self._ended("abandoned", STOPPED), begun)
            raise
        except GeneratorExit:
            # The event loop is gone, and with it whoever could write anything down.
            raise
        except BaseException as error:
            # SystemExit ends the program, but not before it is known what became of the slot.
            with contextlib.suppress(asyncio.CancelledError):
                await self._settle(self._failed(error), begun)
            raise
        finally:
            beating.cancel()
        return await self._settle(ending, begun)

    def _as_written(self, ending: Ending) -> Ending:
        """A slot that was completed in the job's own transaction is, whatever came after."""
        if self.view is None or not self.view.completed or ending.outcome == "completed":
            return ending
        telling.log.error("%s it was completed, and then: %s", self, ending.error)
        return Ending(outcome="completed", **self._told())

    async def _outcome(self) -> Ending:
        terms = self._job.terms
        if terms.jitter:
            await self._part.pause(terms.jitter * self._part.world.draw())
        try:
            async with contextlib.AsyncExitStack() as stack:
                try:
                    lease = await self._lease_at_last(stack)
                except LeaseTaken as taken:
                    return Ending(outcome="skipped", error=f"{taken.holder} still runs it")
                except StoreError as error:
                    return Ending(outcome="missed", error=f"no lease could be had: {error}")
                return await self._run_under(lease)
        except LeaseLost as lost:
            return self._ended("failed", f"LeaseLost: {lost}")

    async def _lease_at_last(self, stack: contextlib.AsyncExitStack) -> Lease:
        """Its back end may be away for as long as the slot may begin: a lost packet must not cost the night."""
        patience = min(self._job.terms.misfire_grace, LONGEST_WAIT)
        until, pause, told = self._part.world.now() + patience, 0.1, False
        while True:
            try:
                return await self._lease(stack)
            except StoreError as error:
                final = isinstance(error, StoreRefused) and not error.may_pass
                if final or self._part.world.now() + pause > until:
                    raise
                if not told:
                    telling.log.warning("%s it waits for a lease: %s", self, error)
                told = True
            await self._part.pause(pause)
            pause = min(2 * pause, 5.0)

    async def _lease(self, stack: contextlib.AsyncExitStack) -> Lease:
        overlap = self._job.terms.overlap
        if overlap == "allow":
            return await stack.enter_async_context(self._hold(wait=0.0, name=f"{self._full}@{self._slot}"))
        if self._attempt > 1:
            # It was promised a run, so it waits for as long as a later slot's run takes, and does not end that.
            return await stack.enter_async_context(self._hold(wait=math.inf))
        if overlap != "queue":
            try:
                return await stack.enter_async_context(self._hold(wait=0.0))
            except LeaseTaken as taken:
                if overlap == "skip":
                    return await self._lease_soon(stack, taken)
                await self._part.backend.force(
                    self._full,
                    token=taken.token,
                    by=f"its next slot, by {called(self._part.owner)}",
                    now=False,
                    audited=False,
                    timeout=self._timing.request_timeout,
                )
        return await stack.enter_async_context(self._hold(wait=self._job.terms.misfire_grace))

    async def _lease_soon(self, stack: contextlib.AsyncExitStack, taken: LeaseTaken) -> Lease:
        """That of a run which the back end no longer sees, or which is about to be over: who was killed skips nobody.

        Raises `LeaseTaken` where it goes on after all."""
        if not 0.0 < taken.remaining <= GONE_FOR:
            raise taken
        patience = min(taken.remaining + self._timing.poll_every * 2, self._job.terms.misfire_grace)
        return await stack.enter_async_context(self._hold(wait=patience))

    def _hold(self, *, wait: float, name: str = "") -> Hold:
        # A run that was killed hands over as soon as the back end sees it; see `core.grants`.
        return Hold(
            self._house,
            name or self._full,
            self._timing,
            wait=wait,
            at_least_for=0.0,
            handed_over=True,
            title=title_of(self._full, self._part.prefix),
        )

    @property
    def _trusted(self) -> float:
        """Seconds for which nobody takes the slot from us, counted from before the question left."""
        return self._job.terms.alive_for * (1 - self._timing.rho)

    async def _run_under(self, lease: Lease) -> Ending:
        self._token = lease.token
        if self._part.world.now() >= self._ours_until:
            # 1. the slot is claimed, 2. this process is frozen, 3. the slot is abandoned, or another worker has run it,
            # 4. we go on, and get the lease.
            try:
                if not await self._heard():
                    return Ending(outcome="abandoned", error="it was held up for too long before it began")
            except StoreError as error:
                return Ending(
                    outcome="missed", error=f"whether the slot is still its own is not known: {error}"
                )
        self.view = Run(
            job=self._full,
            slot=self._slot,
            run=self._run,
            attempt=self._attempt,
            last_success_at=_moment(self._claimed.last_success_at),
            since=_moment(self._claimed.last_success_began),
            lease=lease,
            runs=self._runs,
            patience=self._timing.lease_ttl,
        )
        telling.started(self._part, self._full, self._slot, self._run, self._attempt)
        limit = asyncio.timeout(self._job.terms.time_limit)
        result: Any = None
        task = asyncio.current_task()
        assert task is not None
        cancelled = task.cancelling()
        try:
            async with limit:
                with inside(self._house, lease):
                    result = await self._job.call(self.view)
        except TimeoutError as error:
            if not limit.expired():
                return self._failed(error)
        except asyncio.CancelledError as error:
            if task.cancelling() > cancelled:
                raise
            # Nobody cancelled the run: it awaited something that was, and that is its own failure.
            return self._failed(error)
        except Exception as error:
            return self._failed(error)
        if limit.expired():
            # Also where the function went on in spite of it, and returned.
            return self._ended("failed", f"TimeoutError: time_limit={self._job.terms.time_limit:g} s is over")
        if result is SKIPPED:
            return self._ended("skipped", NOT_RUN)
        return self._ended("completed")

    def _failed(self, error: BaseException) -> Ending:
        telling.log.error("job %s failed", self._full, exc_info=error)
        return self._ended("failed", telling.text_of(error))

    def _ended(self, outcome: Outcome, error: str = "") -> Ending:
        if self.view is not None and self.view.goes_on:
            error += "; its function goes on in a thread"
        return Ending(outcome=outcome, error=error, **self._told())

    def _told(self) -> dict[str, Any]:
        """What an ending says of the run, beside how it ended."""
        if self.view is None:
            return {}
        return {"token": self._token, "counters": dict(self.view.counters)}

    async def _beat(self) -> None:
        """While the row says `running` somebody must say so; the lease alone decides who may run."""
        terms = self._job.terms
        while True:
            await self._part.pause(terms.alive_for / 4)
            try:
                if not await self._heard():
                    return
            except StoreError as error:
                telling.log.warning("job %s: its slot was not heard of: %s", self._full, error)

    async def _heard(self) -> bool:
        """Tell that the run lives; whether its slot is still its own."""
        asked_at = self._part.world.now()
        beat = self._runs.beat(
            self._full,
            slot=self._slot,
            run=self._run,
            alive_for=self._job.terms.alive_for,
            token=self._token,
            timeout=self._timing.request_timeout,
        )
        mine = await self._part.carry_out(beat, name=f"tells that {self._full} runs")
        if mine:
            self._ours_until = max(self._ours_until, asked_at + self._trusted)
        return mine

    async def _settle(self, ending: Ending, begun: float) -> Ending:
        """Not cut off by a cancellation: who stops the worker waits for it, and each try has a time-out."""
        self.ending = ending = self._as_written(ending)
        work = self._part.begin(self._finish(ending, begun), name=f"ends a run of {self._full}")
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            await asyncio.wait({work})
            raise
        return self.ending

    async def _finish(self, ending: Ending, begun: float) -> None:
        seconds = self._part.world.now() - begun
        until = self._part.world.now() + self._job.terms.alive_for
        pause = 0.1
        while self.view is None or not self.view.completed:
            try:
                if not await self._kept(ending):
                    telling.unsettled(self._full, self._slot, ending, None)
                break
            except Exception as error:
                # Of whatever kind: without an outcome the slot would count as its worker's who vanished.
                if self._part.world.now() + pause > min(until, self._given_up_at):
                    telling.unsettled(self._full, self._slot, ending, error)
                    return
                await self._part.pause(pause)
                pause = min(2 * pause, 5.0)
        telling.ended(self._part, self._full, self._slot, self._attempt, self.ending or ending, seconds)

    async def _kept(self, ending: Ending) -> bool:
        """Whether the slot has this outcome, or one that this run gave it before."""
        patience = self._timing.request_timeout
        if await self._runs.finish(
            self._full, slot=self._slot, run=self._run, ending=ending, timeout=patience
        ):
            return True
        # 1. the outcome is sent, 2. its answer is lost, 3. it is sent again. Or 1. the job's own transaction, which
        # completes the slot, is at its COMMIT, 2. the run is cancelled, 3. it is committed.
        for run in await self._runs.history(self._full, limit=1, before=self._slot + 1, timeout=patience):
            if (run.slot, run.run) == (self._slot, self._run) and run.outcome in (
                ending.outcome,
                "completed",
            ):
                if self.view is not None and run.outcome == "completed":
                    self.view.completed = True
                self.ending = self._as_written(ending)
                return True
        return False


def _moment(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, tz=UTC) if seconds else None
