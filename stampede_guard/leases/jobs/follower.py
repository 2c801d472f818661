"""One worker follows one job's schedule: each slot that is due is claimed, and run if it was to be had.

All workers do the same, and it does not matter who is first. Time is the back end's: the worker's clock is only used
to wait, and what is too early by the back end's clock is told so and asked again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, assert_never

from stampede_guard.errors import StoreError, StoreRefused
from stampede_guard.leases.jobs.deadman import deserted
from stampede_guard.leases.jobs.due import due
from stampede_guard.leases.jobs.execution import Execution
from stampede_guard.leases.jobs.job import Job
from stampede_guard.leases.jobs.looks import RETRIED_AT_ONCE, Asker, Looks
from stampede_guard.leases.jobs.schedule import moment
from stampede_guard.leases.jobs.telling import log
from stampede_guard.leases.jobs.watch import SEEN_FOR, Watch
from stampede_guard.leases.part import Part
from stampede_guard.leases.runs.backend import RunBackend
from stampede_guard.leases.runs.words import (
    Claim,
    Claimed,
    Early,
    Ending,
    JobView,
    Look,
    Outcome,
    Outdated,
    Taken,
)

__all__ = ["Follower"]

SPREAD = 0.05
"""Seconds over which the workers' claims of one slot are spread."""
LONGEST_PAUSE = 5.0
"""Seconds between two questions to a back end that is away."""
SHORTEST_LOOK = 1.0
"""Seconds between two looks at a schedule that others follow."""
LOOK_JITTER = 0.25
"""Share of the pause between two looks by which chance shortens it."""


class Follower:
    """`begin(execution)` starts a run and keeps it until it ends."""

    def __init__(
        self,
        house: Any,
        part: Part,
        runs: RunBackend,
        job: Job,
        *,
        version: int,
        begin: Callable[[Execution], object],
        looks: Looks | None = None,
    ) -> None:
        self.job = job
        self.outdated = ""
        self.looked = asyncio.Event()
        """Set after the first look: the back end knows the job. For tests and start-ups that want to know."""
        self._house = house
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
        self._asker = Asker(Look(registration=self._registration, attempts=job.terms.attempts), 0.0, 0.0)
        self._claims: dict[int, str] = {}

    async def follow(self) -> None:
        """Until it is cancelled. The back end's absence is told once, and when it is over."""
        pause, away = 0.5, False
        try:
            await self._follow(pause, away)
        finally:
            self._looks.leave(self._asker)

    async def _follow(self, pause: float, away: bool) -> None:
        while True:
            try:
                wait = await self._look()
            except Exception as error:
                # Whatever it is, it may pass: who follows no more would stand still for ever.
                mistake = None if isinstance(error, StoreError) else error
                if not away:
                    log.error(
                        "job %s: nothing new starts, for the back end %s: %s",
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
        """The back end's time, in seconds since 1970, as far as this worker can tell."""
        return self._part.world.now() + self._offset

    async def _look(self) -> float:
        """Deal with what is due; seconds until the next look."""
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
            await self._record(
                found.missed, "missed", f"no worker was there within misfire_grace={terms.misfire_grace:g} s"
            )
            into = moment(found.run[-1]).isoformat() if found.run else "a later one"
            await self._record(found.coalesced, "missed", f"coalesced into {into}")
            for slot in found.run:
                early = await self._claim(slot)
                if early is not None:
                    # Not longer than to the next look at the clock: one that was set back may be set right.
                    return max(0.0, min(early, self._sweep_at - self._part.world.now()))
        self._since = max(self._since, found.looked_to)
        until = self._sweep_at - self._part.world.now()
        if found.following is not None:
            until = min(until, found.following / 1000 - self.now() + SPREAD * self._part.world.draw())
        return max(0.0, until)

    def _learn(self, view: JobView, answered_at: float | None = None) -> None:
        """`answered_at`: by this worker's clock, if that was before now."""
        world = self._part.world
        now = world.now() if answered_at is None else answered_at
        self._offset = view.at - now
        look = self.job.terms.alive_for / 2
        if view.seen_for:
            # Others' signs are looked for as often as they are to come.
            look = min(look, max(SHORTEST_LOOK, self._watch.pause(view)))
        # At different times in different workers, and never later than the next sign is due.
        self._sweep_at = now + look * (1 - LOOK_JITTER * world.draw() if self._looks.shared else 1)
        self._asker.due, self._asker.pause = self._sweep_at, look
        if self._since is None:
            self._since = max(view.last_slot, int(view.scheduled_at * 1000))
        outdated = view.schedule if view.fingerprint != self._registration.fingerprint else ""
        if outdated and not self.outdated:
            log.warning(
                "job %s: a later deployment has the schedule %r; this worker (%r) runs none of its slots",
                self._full,
                outdated,
                self.job.schedule.text,
            )
        elif self.outdated and not outdated:
            log.warning("job %s: the schedule %r counts again", self._full, self.job.schedule.text)
            # Not from now on: its slots since then are somebody's, or nobody's yet.
            self._since = min(self._since, max(view.last_slot, int(view.scheduled_at * 1000)))
        self.outdated = outdated

    async def _sweep(self) -> None:
        """It is told that this worker is there, and vanished runs are noticed; the clock and the schedule are compared
        with the back end's."""
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
        """What counts, and when that was answered."""
        if view is None:
            # It was forgotten by an operator while this program still has it.
            return await self._registered()
        if view.seen_for:
            left = self._watch.left(view, now=at) and await self._runs.take_over(
                self._registration, timeout=self._timeout
            )
        else:
            # Not ours, of which this was just a sign.
            left = view.version <= self._registration.version and deserted(
                view, misfire_grace=self.job.terms.misfire_grace
            )
        if not left:
            return view, at
        # 1. this worker is deployed, 2. one of the older deployment is started again, and its schedule counts, 3. the
        # older ones go: nobody would run the job ever again.
        log.error("job %s: nobody follows the schedule %r any more", self._full, view.schedule)
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
            log.error("job %s: %d slots %s: %s", self._full, recorded, outcome, why)
        self._since = max(self._since or 0, slots[-1])

    async def _claim(self, slot: int, *, again: bool = False) -> float | None:
        """Seconds until the slot begins, where this worker is early; else it is dealt with."""
        # 1. the claim is sent, 2. this worker is stopped, or follows another schedule, 3. the slot is ours, and nobody
        # runs it. So what was sent is dealt with first; it has a time-out.
        work = self._part.begin(self._dealt_with(slot, again=again), name=f"claims a slot of {self._full}")
        try:
            await asyncio.wait({work})
        except asyncio.CancelledError:
            await asyncio.wait({work})
            if (error := work.exception()) is not None:
                log.warning("job %s: its last claim was not answered: %s", self._full, error)
            raise
        return work.result()

    async def _dealt_with(self, slot: int, *, again: bool) -> float | None:
        # 1. the claim is sent, 2. its answer is lost, 3. it is sent again: with the same id it is the same claim, and
        # the slot is ours and not "taken".
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
            # Forgotten by an operator, or with the server's data; which may have been before the slot began.
            self._learn(await self._runs.register(self._registration, timeout=self._timeout))
            if (early := slot / 1000 - self.now()) > 0:
                return early
        del self._claims[slot]
        self._since = max(self._since or 0, slot)
        match answer:
            case Claimed(late=late):
                if late > self.job.terms.misfire_grace and not again:
                    await self._too_late(slot, run, late)
                else:
                    self._begin(
                        Execution(
                            self._house,
                            self._part,
                            self._runs,
                            self.job,
                            slot=slot,
                            run=run,
                            claimed=answer,
                            asked_at=asked_at,
                        )
                    )
            case Taken():
                pass
            case Outdated(""):
                # Whether it had run nobody knows.
                await self._record([slot], "missed", "the back end did not know the job any more")
            case Outdated():
                # The next look learns what counts, and tells it.
                self._sweep_at = self._part.world.now()
            case _:
                assert_never(answer)
        return None

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
