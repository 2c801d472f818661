"""One statement for all jobs of a worker: the first job that is due looks for the other jobs, too.

A worker must regularly tell the back end that it follows each job, and look for vanished runs. Two hundred workers with
a hundred jobs would send hundreds of statements a second for that alone. So the jobs of one worker share a statement.
If a job's own look is due soon, it joins the look of another job. It finds its answer when its own time comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from stampede_guard.errors import StoreRefused
from stampede_guard.jobs.backends.one_by_one import looked
from stampede_guard.jobs.backends.protocol import RunBackend
from stampede_guard.jobs.messages import JobPoll, JobView, PollAnswer, Registration
from stampede_guard.leases.keeping.loop_state import LoopState

__all__ = ["RETRIED_AT_ONCE", "Asker", "Looks"]

T = TypeVar("T")

RETRIED_AT_ONCE = 20
"""Abandoned slots that one look claims, the oldest first. Slots without another attempt are not among them."""
EARLY = 0.5
"""A job joins the statement of another job if its own look is due within this share of its pause."""


def _may_be_of_one(error: BaseException | None) -> bool:
    """Whether the reason may be what another program wrote in place of one job. That must not stop the other jobs."""
    return isinstance(error, StoreRefused) and error.kind == "other" and not error.may_pass


@dataclass(eq=False, slots=True)
class Asker:
    """A job of the worker. `due`: when it looks next, on the worker's clock. `pause`: seconds between two looks."""

    look: JobPoll
    due: float
    pause: float
    seen: tuple[PollAnswer, float] | None = None
    """The answer that the job has not taken yet, and when the back end gave it."""


class Looks:
    """The looks of one worker's jobs, in one event loop. `timeout`: seconds for each statement."""

    def __init__(self, part: LoopState, runs: RunBackend) -> None:
        self._part = part
        self._runs = runs
        self._askers: set[Asker] = set()
        self._looking: asyncio.Task[None] | None = None
        self._registering: dict[Registration, asyncio.Future[tuple[JobView, float]]] = {}

    @property
    def shared(self) -> bool:
        """Whether there are several jobs to share a statement."""
        return len(self._askers) > 1

    async def alone(self, asker: Asker, *, timeout: float) -> tuple[PollAnswer, float]:
        """One look in single steps, for a worker with one job."""
        view = await self._runs.follow(asker.look.registration, timeout=timeout)
        at = self._part.world.now()
        vanished = await self._runs.sweep(asker.look.registration.job, timeout=timeout)
        return PollAnswer(view, tuple(vanished)), at

    def join(self, asker: Asker) -> None:
        self._askers.add(asker)

    def leave(self, asker: Asker) -> None:
        self._askers.discard(asker)

    async def registered(self, registration: Registration, *, timeout: float) -> tuple[JobView, float]:
        """The schedule in force, and when the back end answered.

        The registrations of one turn of the event loop share a statement.
        """
        known = self._registering.get(registration)
        if known is None:
            loop = asyncio.get_running_loop()
            known = loop.create_future()
            if not self._registering:
                self._part.begin(self._register(timeout), name="registers jobs")
            self._registering[registration] = known
        return await asyncio.shield(known)

    async def _register(self, timeout: float) -> None:
        await asyncio.sleep(0)
        waiting, self._registering = self._registering, {}
        try:
            await self._register_these(waiting, timeout)
        except StoreRefused:
            for registration, future in waiting.items():
                await self._register_these({registration: future}, timeout)

    async def _register_these(
        self, waiting: dict[Registration, asyncio.Future[tuple[JobView, float]]], timeout: float
    ) -> None:
        """Raises a refusal that may concern one of several, and tells nobody of it yet."""
        given = list(waiting)
        try:
            many: Callable[..., Coroutine[Any, Any, list[JobView]]] | None = getattr(
                self._runs, "register_all", None
            )
            if many is not None and len(given) > 1:
                views = await many(given, timeout=timeout)
            else:
                views = [await self._runs.register(one, timeout=timeout) for one in given]
        except BaseException as error:
            if len(given) > 1 and _may_be_of_one(error):
                raise
            for future in waiting.values():
                if not future.done():
                    future.set_exception(error)
                    # The waiting caller may be cancelled. Then no one else retrieves the exception.
                    future.exception()
            if not isinstance(error, Exception):
                raise
            return
        now = self._part.world.now()
        for future, view in zip(waiting.values(), views, strict=True):
            if not future.done():
                future.set_result((view, now))

    async def seen(self, asker: Asker, *, timeout: float) -> tuple[PollAnswer, float]:
        """The answer to this job's look, and when it came. Another job's look may have brought it before."""
        while asker.seen is None:
            if begins := self._looking is None or self._looking.done():
                self._looking = self._part.begin(self._look(asker, timeout), name="looks at jobs")
            looking = self._looking
            assert looking is not None
            await asyncio.wait({looking})
            if asker.seen is None:
                # An error of this look is raised in all jobs that waited for it, unless it may be that of one other
                # job. A job that was not part of it looks again.
                if begins or not _may_be_of_one(looking.exception()):
                    looking.result()
        found, asker.seen = asker.seen, None
        return found

    async def _look(self, first: Asker, timeout: float) -> None:
        now = self._part.world.now()
        soon = [
            asker for asker in self._askers if asker.seen is None and asker.due - now <= EARLY * asker.pause
        ]
        together = [first, *(asker for asker in soon if asker is not first)]
        together.sort(key=lambda asker: asker.look.registration.job)
        try:
            await self._look_at(together, timeout)
        except StoreRefused as error:
            if len(together) == 1 or not _may_be_of_one(error):
                raise
            await self._look_at([first], timeout)

    async def _look_at(self, together: list[Asker], timeout: float) -> None:
        looks = [asker.look for asker in together]
        many: Callable[..., Coroutine[Any, Any, list[PollAnswer]]] | None = getattr(self._runs, "look", None)
        if many is not None:
            answers = await many(looks, again=RETRIED_AT_ONCE, timeout=timeout)
        else:
            answers = [
                await looked(self._runs, look, again=RETRIED_AT_ONCE, timeout=timeout) for look in looks
            ]
        at = self._part.world.now()
        for asker, answer in zip(together, answers, strict=True):
            asker.seen = (answer, at)
