"""One worker follows one job's schedule: it claims each due slot, and runs the slots that it gets.

All workers do the same, and any of them may be first. The back end's clock decides; the worker's clock only serves to
wait. If a claim is too early by the back end's clock, the worker learns that and claims again later.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, assert_never

from stampede_guard.errors import StoreError, StoreRefused
from stampede_guard.jobs.backends.protocol import RunBackend
from stampede_guard.jobs.execution import Execution
from stampede_guard.jobs.following.looks import RETRIED_AT_ONCE, Asker, Looks
from stampede_guard.jobs.following.watch import SEEN_FOR, Watch
from stampede_guard.jobs.history.deadman import deserted
from stampede_guard.jobs.job import Job
from stampede_guard.jobs.messages import (
    PAUSED,
    Claim,
    Claimed,
    Early,
    Ending,
    JobPoll,
    JobView,
    Outcome,
    Outdated,
    Paused,
    Taken,
)
from stampede_guard.jobs.reporting import log, punctual, unfollowed
from stampede_guard.jobs.schedules.due import due
from stampede_guard.jobs.schedules.schedule import moment
from stampede_guard.leases.keeping.loop_state import LoopState

__all__ = ["Follower"]

SPREAD = 0.05
"""Seconds over which the workers spread their claims of one slot."""
LONGEST_PAUSE = 5.0
"""The longest pause, in seconds, between two requests to a back end that is away."""
SHORTEST_LOOK = 1.0
"""The shortest pause, in seconds, between two looks at a schedule that other workers follow."""
LOOK_JITTER = 0.25
"""Jitter: the pause between two looks is up to this share shorter, at random."""


class Follower:
    """`begin(execution)` starts a run and keeps it until it ends."""

    def __init__(
        self,
        client: Any,
        part: LoopState,
        runs: RunBackend,
        job: Job,
        *,
        version: int,
        begin: Callable[[Execution], object],
        looks: Looks | None = None,
    ) -> None:
        self.job = job
        self.outdated = ""
        self.paused = False
        """What the last answer said. A claim decides; this is for the log and the history."""
        self.looked = asyncio.Event()
        """Set after the first look: the back end knows the job. Tests and start-up code wait for it."""
        self._client = client
        self._part = part
        self._runs = runs
        self._begin = begin
        self._registration = replace(
            job.registration(part.prefix, version), seen_for=job.terms.alive_for * SEEN_FOR
        )
        self._full = self._registration.job
        self._watch = Watch(self._registration.fingerprint)
        self._timeout = job.terms.timing.request_timeout
        self._since: int | None = None
        self._offset = 0.0
        self._sweep_at = 0.0
        self._looks = Looks(part, runs) if looks is None else looks
        self._asker = Asker(JobPoll(registration=self._registration, attempts=job.terms.attempts), 0.0, 0.0)
        self._claims: dict[int, str] = {}
        self._overdue: bool | None = None

    async def follow(self) -> None:
        """Run until cancelled. An outage of the back end is logged once when it begins, and once when it ends."""
        pause, away = 0.5, False
        try:
            await self._follow(pause, away)
        finally:
            self._looks.leave(self._asker)
            if self._overdue:
                unfollowed(self._part, self._full)

    async def _follow(self, pause: float, away: bool) -> None:
        while True:
            try:
                wait = await self._look()
            except Exception as error:
                # Catch every error, because it may be temporary. If this task ended, the job would never run again.
                mistake = None if isinstance(error, StoreError) else error
                if not away:
                    log.error(
                        "job %s: no new run starts because the back end %s: %s",
                        self._full,
                        "refuses" if isinstance(error, StoreRefused) else "is away",
                        error,
                        exc_info=mistake,
                    )
                away = True
                self._watch.blind()
                wait, pause = pause, min(2 * pause, LONGEST_PAUSE)
            else:
                if away:
                    log.warning("job %s: the back end is back", self._full)
                pause, away = 0.5, False
                self.looked.set()
            await self._part.pause(wait)

    def now(self) -> float:
        """This worker's estimate of the back end's time, in seconds since 1970."""
        return self._part.world.now() + self._offset

    async def _look(self) -> float:
        """Handle the due slots. Returns the seconds until the next look."""
        was_paused = self.paused
        if self._since is None:
            self._looks.join(self._asker)
            if self._looks.shared:
                self._learn(*await self._looks.registered(self._registration, timeout=self._timeout))
            else:
                self._learn(*await self._registered())
        elif self._part.world.now() >= self._sweep_at:
            await self._sweep()
        assert self._since is not None
        terms = self.job.terms
        found = due(
            self.job.schedule,
            since=self._since,
            now=int(self.now() * 1000),
            misfire_grace=terms.misfire_grace,
            coalesce=terms.coalesce,
        )
        if not self.outdated:
            late = f"no worker was there within misfire_grace={terms.misfire_grace:g} s"
            into = moment(found.run[-1]).isoformat() if found.run else "a later one"
            paused = PAUSED if was_paused or self.paused else ""
            await self._record(found.missed, "missed", paused or late)
            await self._record(found.coalesced, "missed", paused or f"coalesced into {into}")
            for slot in found.run:
                early = await self._claim(slot)
                if early is not None:
                    # At most until the next look at the back end's clock: a clock that was set back may be corrected.
                    return max(0.0, min(early, self._sweep_at - self._part.world.now()))
                if self._since < slot:
                    # The job is paused. Try this slot again with the next one, and at the next look: then the job may
                    # have been resumed.
                    return self._until(self.job.schedule.after(int(self.now() * 1000)))
        self._since = max(self._since, found.looked_to)
        return self._until(found.following)

    def _until(self, slot: int | None) -> float:
        """Seconds until this slot, or until the next look if that comes first."""
        until = self._sweep_at - self._part.world.now()
        if slot is not None:
            until = min(until, slot / 1000 - self.now() + SPREAD * self._part.world.draw())
        return max(0.0, until)

    def _learn(self, view: JobView, answered_at: float | None = None) -> None:
        """Take over what the back end answered. `answered_at`: on this worker's clock; None = now."""
        world = self._part.world
        now = world.now() if answered_at is None else answered_at
        self._offset = view.at - now
        self._overdue = punctual(self._part, view, was_overdue=self._overdue)
        look = self.job.terms.alive_for / 2
        if view.seen_for:
            # Look for the signs of other workers as often as those workers send them.
            look = min(look, max(SHORTEST_LOOK, self._watch.pause(view)))
        # Different workers look at different times, but never later than their next sign is due.
        self._sweep_at = now + look * (1 - LOOK_JITTER * world.draw() if self._looks.shared else 1)
        self._asker.due, self._asker.pause = self._sweep_at, look
        if self._since is None:
            self._since = max(view.last_slot, int(view.scheduled_at * 1000))
        outdated = view.schedule if view.fingerprint != self._registration.fingerprint else ""
        if outdated and not self.outdated:
            log.warning(
                "job %s: a later deployment set the schedule %r; this worker has %r and runs no slots",
                self._full,
                outdated,
                self.job.schedule.text,
            )
        elif self.outdated and not outdated:
            log.warning("job %s: the schedule %r is in force again", self._full, self.job.schedule.text)
            # Begin at the last known slot, not now: some slots since then may have no outcome yet.
            self._since = min(self._since, max(view.last_slot, int(view.scheduled_at * 1000)))
        self.outdated = outdated
        self._tell_paused(bool(view.paused_at), view.paused_by)

    def _tell_paused(self, paused: bool, by: str) -> None:
        if paused and not self.paused:
            log.warning("job %s: paused by %s; no slot starts until it is resumed", self._full, by)
        elif self.paused and not paused:
            log.warning("job %s: resumed", self._full)
        self.paused = paused

    async def _sweep(self) -> None:
        """Tell the back end that this worker lives, and find vanished runs.

        Also compare the worker's clock and schedule with the back end's.
        """
        shared = self._looks.shared
        look = self._looks.seen if shared else self._looks.alone
        seen, at = await look(self._asker, timeout=self._timeout)
        learnt = await self._followed(seen.view, at)
        for run in seen.vanished:
            log.error("job %s, slot %s: its worker vanished", self._full, moment(run.slot).isoformat())
        self._learn(*learnt)
        attempts = self.job.terms.attempts
        if attempts < 2 or self.outdated:
            return
        if shared:
            again = {run.slot for run in seen.again}
            again |= {run.slot for run in seen.vanished if run.attempt < min(run.attempts, attempts)}
        else:
            tried = await self._runs.retriable(
                self._full, attempts=attempts, limit=RETRIED_AT_ONCE, timeout=self._timeout
            )
            again = {run.slot for run in tried}
        for slot in sorted(again)[:RETRIED_AT_ONCE]:
            await self._claim(slot, again=True)

    async def _followed(self, view: JobView | None, at: float) -> tuple[JobView, float]:
        """The schedule in force, and when the back end answered."""
        if view is None:
            # An operator made the back end forget the job, but this program still has it.
            return await self._registered()
        if view.seen_for:
            left = self._watch.left(view, now=at) and await self._runs.take_over(
                self._registration, timeout=self._timeout
            )
        else:
            # The schedule in force gets no signs. So it is not ours, because this look was a sign for ours.
            left = view.version <= self._registration.version and deserted(
                view, misfire_grace=self.job.terms.misfire_grace
            )
        if not left:
            return view, at
        # 1. this worker is deployed, 2. a worker of the older deployment restarts, and its schedule is in force, 3. the
        # older workers go: no worker would ever run the job again.
        log.error("job %s: no worker follows the schedule %r any more", self._full, view.schedule)
        return await self._registered()

    async def _registered(self) -> tuple[JobView, float]:
        view = await self._runs.register(self._registration, timeout=self._timeout)
        return view, self._part.world.now()

    async def _record(self, slots: Sequence[int], outcome: Outcome, why: str) -> None:
        if not slots:
            return
        recorded = await self._runs.record(
            self._full, slots=slots, outcome=outcome, error=why, timeout=self._timeout
        )
        if recorded:
            level = logging.INFO if why == PAUSED else logging.ERROR
            log.log(level, "job %s: %d slots %s: %s", self._full, recorded, outcome, why)
        for slot in slots:
            self._claims.pop(slot, None)
        self._since = max(self._since or 0, slots[-1])

    async def _claim(self, slot: int, *, again: bool = False) -> float | None:
        """Seconds until the slot begins if this worker is early; None if the slot is handled, or the job is paused."""
        # 1. this worker sends the claim, 2. it is stopped, or follows another schedule, 3. it gets the slot, and no
        # worker runs it. So wait for the answer and handle it first; the request has a time-out.
        work = self._part.begin(self._dealt_with(slot, again=again), name=f"claims a slot of {self._full}")
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            await asyncio.wait({work})
            if (error := work.exception()) is not None:
                log.warning("job %s: the last claim got no answer: %s", self._full, error)
            raise
        return work.result()

    async def _dealt_with(self, slot: int, *, again: bool) -> float | None:
        # 1. this worker sends the claim, 2. the answer is lost, 3. it sends the claim again. With the same id it is the
        # same claim, so the back end answers "claimed" and not "taken".
        run = self._claims.setdefault(slot, self._part.world.fresh())
        asked_at = self._part.world.now()
        answer = await self._runs.claim(
            Claim(
                job=self._full,
                slot=slot,
                run=run,
                owner=self._part.owner,
                fingerprint=self._registration.fingerprint,
                alive_for=self.job.terms.alive_for,
                attempts=self.job.terms.attempts,
            ),
            timeout=self._timeout,
        )
        if isinstance(answer, Early):
            self._offset = slot / 1000 - answer.remaining - self._part.world.now()
            return answer.remaining
        if answer == Outdated(""):
            # An operator made the back end forget the job, or the server lost its data. Perhaps that happened before
            # the slot began.
            self._learn(await self._runs.register(self._registration, timeout=self._timeout))
            if (early := slot / 1000 - self.now()) > 0:
                return early
        if isinstance(answer, Paused):
            # Keep the claim's id: an earlier request without an answer may still take the slot after the resume.
            self._tell_paused(True, answer.by)
            return None
        del self._claims[slot]
        self._since = max(self._since or 0, slot)
        match answer:
            case Claimed(late=late):
                self._tell_paused(False, "")
                if late > self.job.terms.misfire_grace and not again:
                    await self._too_late(slot, run, late)
                else:
                    self._run(slot, run, answer, asked_at)
            case Taken():
                pass
            case Outdated(""):
                # Nobody can know whether the slot has run, so it is missed.
                await self._record([slot], "missed", "the back end did not know the job any more")
            case Outdated():
                # The next look learns the schedule in force, and logs it.
                self._sweep_at = self._part.world.now()
            case _:
                assert_never(answer)
        return None

    def _run(self, slot: int, run: str, claimed: Claimed, asked_at: float) -> None:
        self._begin(
            Execution(
                self._client,
                self._part,
                self._runs,
                self.job,
                slot=slot,
                run=run,
                claimed=claimed,
                asked_at=asked_at,
            )
        )

    async def _too_late(self, slot: int, run: str, late: float) -> None:
        why = f"its worker was {late:.1f} s late, misfire_grace={self.job.terms.misfire_grace:g} s"
        log.error("job %s, slot %s: missed: %s", self._full, moment(slot).isoformat(), why)
        await self._runs.finish(
            self._full,
            slot=slot,
            run=run,
            ending=Ending(outcome="missed", error=why),
            timeout=self._timeout,
        )
