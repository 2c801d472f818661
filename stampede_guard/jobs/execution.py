"""One run from its claim to its end: under a lease, with heartbeats, within its time limit."""

from __future__ import annotations

import asyncio
import contextlib
import math
from datetime import UTC, datetime
from typing import Any

from stampede_guard.errors import LeaseLost, LeaseTaken, StoreError, StoreRefused
from stampede_guard.jobs import reporting
from stampede_guard.jobs.backends.protocol import RunBackend
from stampede_guard.jobs.job import Job
from stampede_guard.jobs.messages import Claimed, Ending, Outcome
from stampede_guard.jobs.run import Run
from stampede_guard.jobs.schedules.schedule import moment
from stampede_guard.leases.core.grants import GONE_FOR
from stampede_guard.leases.exclusive import SKIPPED
from stampede_guard.leases.hold import Hold
from stampede_guard.leases.keeping.loop_state import LoopState
from stampede_guard.leases.keeping.reporting import title_of
from stampede_guard.leases.lease import Lease
from stampede_guard.leases.nested import inside
from stampede_guard.leases.owner import called

__all__ = ["STOPPED", "Execution"]

STOPPED = "the worker was stopped"
LONGEST_WAIT = 3_600.0
"""The longest time, in seconds, that a slot waits while the back end grants no leases. It bounds `misfire_grace`."""
NOT_RUN = "it returned SKIPPED: the function that it called was already running"


class Execution:
    """A claimed slot. `asked_at`: when the claim was sent, on this worker's clock.

    `perform()` writes the outcome of the slot. It raises only a cancellation or an exception that ends the program, and
    only after it has written the outcome. While the back end is away, it tries to write for as long as the slot counts
    as alive. After `hurry()` it tries only for the seconds given there.
    """

    def __init__(
        self,
        client: Any,
        part: LoopState,
        runs: RunBackend,
        job: Job,
        *,
        slot: int,
        run: str,
        claimed: Claimed,
        asked_at: float,
    ) -> None:
        self._client = client
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
        """How the run ended, once that is known."""

    def __str__(self) -> str:
        return f"job {self._full}, slot {moment(self._slot).isoformat()}:"

    def hurry(self, seconds: float) -> None:
        """The worker stops: finish within `seconds`, including the write of the outcome."""
        self._given_up_at = self._part.world.now() + seconds
        if self.view is not None:
            self.view.patience = min(self.view.patience, seconds * 2 / 3)

    async def perform(self) -> Ending:
        begun = self._part.world.now()
        # Not a task of the part: a part that closes waits for its own tasks, and this task ends only with the run.
        beating = asyncio.get_running_loop().create_task(
            self._beat(), name=f"stampede_guard heartbeats of {self._full}"
        )
        try:
            ending = await self._outcome()
        except asyncio.CancelledError:
            # The program ends. If the job allows more attempts, another worker may try the slot at once.
            await self._settle(self._ended("abandoned", STOPPED), begun)
            raise
        except GeneratorExit:
            # The event loop is gone, so no task can write the outcome.
            raise
        except BaseException as error:
            # SystemExit ends the program, but first write the outcome of the slot.
            with contextlib.suppress(asyncio.CancelledError):
                await self._settle(self._failed(error), begun)
            raise
        finally:
            beating.cancel()
        return await self._settle(ending, begun)

    def _as_written(self, ending: Ending) -> Ending:
        """A slot that the job's own transaction completed stays completed, whatever happened afterwards."""
        if self.view is None or not self.view.completed or ending.outcome == "completed":
            return ending
        reporting.log.error("%s completed, but an error followed: %s", self, ending.error)
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
                    return Ending(outcome="missed", error=f"the back end granted no lease: {error}")
                return await self._run_under(lease)
        except LeaseLost as lost:
            return self._ended("failed", f"LeaseLost: {lost}")

    async def _lease_at_last(self, stack: contextlib.AsyncExitStack) -> Lease:
        """Wait for the lease while the back end is away, for as long as the slot may begin.

        Otherwise one lost packet could cost the only run of a night.
        """
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
                    reporting.log.warning("%s waiting for a lease: %s", self, error)
                told = True
            await self._part.pause(pause)
            pause = min(2 * pause, 5.0)

    async def _lease(self, stack: contextlib.AsyncExitStack) -> Lease:
        overlap = self._job.terms.overlap
        if overlap == "allow":
            return await stack.enter_async_context(self._hold(wait=0.0, name=f"{self._full}@{self._slot}"))
        if self._attempt > 1:
            # The slot was promised another attempt. So it waits until the run of a later slot ends, and does not
            # cancel that run.
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
                    by=f"its next slot, on {called(self._part.owner)}",
                    now=False,
                    audited=False,
                    timeout=self._timing.request_timeout,
                )
        return await stack.enter_async_context(self._hold(wait=self._job.terms.misfire_grace))

    async def _lease_soon(self, stack: contextlib.AsyncExitStack, taken: LeaseTaken) -> Lease:
        """Wait for a lease that ends soon: the back end no longer sees the holder, or the deadline is near.

        So a killed run makes no slot skip. Raises `LeaseTaken` if the other run goes on after all.
        """
        if not 0.0 < taken.remaining <= GONE_FOR:
            raise taken
        patience = min(taken.remaining + self._timing.poll_every * 2, self._job.terms.misfire_grace)
        return await stack.enter_async_context(self._hold(wait=patience))

    def _hold(self, *, wait: float, name: str = "") -> Hold:
        # The lease of a killed run is handed over as soon as the back end sees that; see `core.grants`.
        return Hold(
            self._client,
            name or self._full,
            self._timing,
            wait=wait,
            at_least_for=0.0,
            handed_over=True,
            title=title_of(self._full, self._part.prefix),
        )

    @property
    def _trusted(self) -> float:
        """Seconds for which no other worker can take the slot. They count from before the request was sent."""
        return self._job.terms.alive_for * (1 - self._timing.rho)

    async def _run_under(self, lease: Lease) -> Ending:
        self._token = lease.token
        if self._part.world.now() >= self._ours_until:
            # 1. this process claims the slot, 2. this process is frozen, 3. the slot is abandoned, or another worker
            # has run it, 4. this process goes on, and gets the lease.
            try:
                if not await self._heard():
                    return Ending(
                        outcome="abandoned", error="the worker was frozen too long before the run began"
                    )
            except StoreError as error:
                return Ending(
                    outcome="missed",
                    error=f"the worker cannot tell whether another worker took the slot: {error}",
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
        reporting.started(self._part, self._full, self._slot, self._run, self._attempt)
        limit = asyncio.timeout(self._job.terms.time_limit)
        result: Any = None
        task = asyncio.current_task()
        assert task is not None
        cancelled = task.cancelling()
        try:
            async with limit:
                with inside(self._client, lease):
                    result = await self._job.call(self.view)
        except TimeoutError as error:
            if not limit.expired():
                return self._failed(error)
        except asyncio.CancelledError as error:
            if task.cancelling() > cancelled:
                raise
            # The run itself was not cancelled. It awaited a task that was cancelled, so the run has failed.
            return self._failed(error)
        except GeneratorExit as error:
            # It closes a task that is garbage, because its event loop is gone. Such a task is not running.
            if _running() is not task:
                raise
            return self._failed(error)
        except Exception as error:
            return self._failed(error)
        if limit.expired():
            # Also if the function ignored the cancellation and returned.
            return self._ended("failed", f"TimeoutError: time_limit={self._job.terms.time_limit:g} s is over")
        if result is SKIPPED:
            return self._ended("skipped", NOT_RUN)
        return self._ended("completed")

    def _failed(self, error: BaseException) -> Ending:
        reporting.log.error("job %s failed", self._full, exc_info=error)
        return self._ended("failed", reporting.text_of(error))

    def _ended(self, outcome: Outcome, error: str = "") -> Ending:
        if self.view is not None and self.view.goes_on:
            error += "; its function goes on in a thread"
        return Ending(outcome=outcome, error=error, **self._told())

    def _told(self) -> dict[str, Any]:
        """The fields of an `Ending` beside outcome and error."""
        if self.view is None:
            return {}
        return {"token": self._token, "counters": dict(self.view.counters)}

    async def _beat(self) -> None:
        """Renew the row while it says `running`. Only the lease decides which worker may run."""
        terms = self._job.terms
        while True:
            await self._part.pause(terms.alive_for / 4)
            try:
                if not await self._heard():
                    return
            except StoreError as error:
                reporting.log.warning("job %s: a heartbeat failed: %s", self._full, error)

    async def _heard(self) -> bool:
        """Send a heartbeat. Returns whether the slot still belongs to this run."""
        asked_at = self._part.world.now()
        beat = self._runs.beat(
            self._full,
            slot=self._slot,
            run=self._run,
            alive_for=self._job.terms.alive_for,
            token=self._token,
            timeout=self._timing.request_timeout,
        )
        mine = await self._part.carry_out(beat, name=f"sends a heartbeat of {self._full}")
        if mine:
            self._ours_until = max(self._ours_until, asked_at + self._trusted)
        return mine

    async def _settle(self, ending: Ending, begun: float) -> Ending:
        """A cancellation does not interrupt this: a stop of the worker waits for it, and each try has a time-out."""
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
                    reporting.unsettled(self._full, self._slot, ending, None)
                break
            except Exception as error:
                # Retry after every kind of error: without an outcome, the worker would count as vanished.
                if self._part.world.now() + pause > min(until, self._given_up_at):
                    reporting.unsettled(self._full, self._slot, ending, error)
                    return
                await self._part.pause(pause)
                pause = min(2 * pause, 5.0)
        reporting.ended(self._part, self._full, self._slot, self._attempt, self.ending or ending, seconds)

    async def _kept(self, ending: Ending) -> bool:
        """Whether the slot has this outcome, or an outcome that this run wrote before."""
        patience = self._timing.request_timeout
        if await self._runs.finish(
            self._full, slot=self._slot, run=self._run, ending=ending, timeout=patience
        ):
            return True
        # Either 1. this run sends the outcome, 2. the answer is lost, 3. this run sends the outcome again. Or 1. the
        # job's own transaction, which completes the slot, sends its COMMIT, 2. the run is cancelled, 3. the server
        # commits.
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


def _running() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None


def _moment(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(seconds, tz=UTC) if seconds else None
