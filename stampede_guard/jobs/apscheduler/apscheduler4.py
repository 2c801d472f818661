"""APScheduler 4, unchanged: a function that runs each of its slots in one worker.

    await scheduler.add_schedule(once_per_slot(jobs)(import_all), CronTrigger(hour=3), id="import")

For `AsyncScheduler`s that share no data store. A job is identified by the id of its schedule, so give each schedule an
id.
"""

from __future__ import annotations

import asyncio
import functools
import importlib.util
import uuid
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from stampede_guard.durations import Duration
from stampede_guard.errors import Misuse
from stampede_guard.jobs import apscheduler
from stampede_guard.jobs.apscheduler.external import (
    FOR_EVER,
    ExternalSchedule,
    ForeignSlots,
    foreign_terms,
    remember,
)
from stampede_guard.jobs.job import SlotOptions
from stampede_guard.jobs.messages import Ending
from stampede_guard.jobs.reporting import log
from stampede_guard.jobs.run import Run
from stampede_guard.jobs.threads import result_of
from stampede_guard.leases import checks
from stampede_guard.leases.exclusive import SKIPPED, Skipped

if TYPE_CHECKING:
    from stampede_guard.jobs.scheduler import Jobs

__all__ = ["once_per_slot"]

R = TypeVar("R")


def once_per_slot(
    jobs: Jobs, *, rhythm: Duration = 0.0, **terms: Unpack[SlotOptions]
) -> Callable[[Callable[..., Any]], Callable[..., Coroutine[Any, Any, Any | Skipped]]]:
    """A call returns the function's result, or `SKIPPED` if another worker had the slot or a run still went on.

    `rhythm`: seconds between two slots, for the dead-man signal; by default the trigger decides. `terms`: as for
    `jobs.cron`, without `coalesce` and `retry_abandoned`. `misfire_grace` is unlimited by default, because a schedule
    of APScheduler has its own. APScheduler drops later firings, and no history shows them. A plain function runs in a
    thread of its own.

    A call raises the function's own exception. It raises `StoreError` while the back end is away: then nothing ran. A
    cancelled call waits until the function has ended. Raises `Misuse` for invalid terms, without APScheduler 4, and if
    the call comes from outside a schedule's job or an event loop.
    """
    _check_version()
    slots = ForeignSlots(jobs)
    checked = foreign_terms(terms, misfire_grace=FOR_EVER)
    known_rhythm = checks.seconds("rhythm", rhythm)

    def decorate(function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any | Skipped]]:
        schedules = _Schedules(known_rhythm)

        async def run(firing: _Firing, args: Any, kwargs: Any) -> Any | Skipped:
            found = await schedules.look(firing)
            if found is None:
                return SKIPPED
            result: list[Any] = []
            raised: list[Exception] = []

            async def call_it(run: Run) -> Any:
                try:
                    result.append(await result_of(function, args, kwargs, name=firing.schedule, run=run))
                    return result[0]
                except Exception as error:
                    raised.append(error)
                    raise

            kept, slot = found
            ending = await slots.run(firing.schedule, kept, slot, call_it, checked, late=firing.late)
            if raised:
                raise raised[0]
            if not isinstance(ending, Ending) or ending.outcome in ("skipped", "missed"):
                return SKIPPED
            if ending.outcome != "completed":
                raise RuntimeError(ending.error)
            return result[0]

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Coroutine[Any, Any, Any | Skipped]:
            # Not a coroutine function: a thread pool would only create the coroutine, and silently never await it.
            return _apart(run(_Firing.of_this_job(), args, kwargs))

        return call

    return decorate


def _check_version() -> None:
    try:
        if importlib.util.find_spec("apscheduler.datastores") is not None:
            return
    except ModuleNotFoundError:
        pass
    raise Misuse(
        "once_per_slot is for APScheduler 4; version 3 has SlotExecutor (stampede_guard.jobs.apscheduler.apscheduler3)"
    )


@dataclass(frozen=True, slots=True)
class _Firing:
    """`schedule`: its id. `original`: its scheduled time without jitter. `late`: seconds."""

    schedule: str
    original: datetime
    late: float
    scheduler: Any

    @classmethod
    def of_this_job(cls) -> _Firing:
        from apscheduler import current_async_scheduler, current_job

        job, scheduler = current_job.get(None), current_async_scheduler.get(None)
        if job is None or job.schedule_id is None or job.original_scheduled_time is None or scheduler is None:
            raise Misuse(
                "once_per_slot is for functions that a schedule of APScheduler 4 runs: use add_schedule(..., id=...)"
            )
        if _is_invented(job.schedule_id):
            raise Misuse(
                f"the schedule of {job.task_id} has no id of its own, so no other worker knows it: "
                "write add_schedule(..., id='...'); if the id is your own UUID, add a prefix"
            )
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise Misuse(
                f"once_per_slot needs asyncio's event loop, and the executor {job.executor!r} has none: use "
                "AsyncScheduler, and job_executor='async'"
            ) from None
        late = (datetime.now(UTC) - job.scheduled_fire_time).total_seconds()
        return cls(job.schedule_id, job.original_scheduled_time, late, scheduler)


class _Schedules:
    """The known schedules that run one function."""

    def __init__(self, rhythm: float) -> None:
        self._rhythm = rhythm
        self._triggers: dict[str, Any] = {}
        self._kept: dict[str, ExternalSchedule] = {}

    async def look(self, firing: _Firing) -> tuple[ExternalSchedule, int] | None:
        """The schedule and slot of a firing. None if the schedule is not known any more: then its slot is unknown."""
        from apscheduler import ScheduleLookupError

        try:
            trigger = (await firing.scheduler.get_schedule(firing.schedule)).trigger
        except ScheduleLookupError:
            # The schedule was removed after it fired.
            if firing.schedule not in self._triggers:
                log.warning("job %s: its schedule was removed before it began", firing.schedule)
                return None
            trigger = self._triggers[firing.schedule]
        remember(self._triggers, firing.schedule, trigger)
        known = f"{type(trigger)} {trigger!r}"
        if known not in self._kept:
            remember(self._kept, known, apscheduler.triggers4.kept_of(trigger, self._rhythm))
        return self._kept[known], apscheduler.triggers4.slot_at(trigger, firing.original)


async def _apart(work: Coroutine[Any, Any, R]) -> R:
    """Run it in a task of its own, which is cancelled only once.

    APScheduler's cancel scopes cancel again at each await. That would interrupt the write of the outcome, and the wait
    for a thread.
    """
    from anyio import CancelScope

    task = asyncio.get_running_loop().create_task(work)
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        with CancelScope(shield=True):
            await asyncio.wait({task})
        if not task.cancelled():
            task.exception()
        raise
    return task.result()


def _is_invented(schedule: str) -> bool:
    try:
        return str(uuid.UUID(schedule, version=4)) == schedule
    except ValueError:
        return False
