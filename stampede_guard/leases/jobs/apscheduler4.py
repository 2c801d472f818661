"""APScheduler 4 as it is: a function that runs each of its slots in one worker.

    await scheduler.add_schedule(once_per_slot(jobs)(import_all), CronTrigger(hour=3), id="import")

Made for schedulers that share no data store. It is known by the schedule's id, so give each one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from stampede_guard.errors import Misuse
from stampede_guard.leases.exclusive import SKIPPED, Skipped
from stampede_guard.leases.jobs.foreign import ForeignSlots, Kept
from stampede_guard.leases.jobs.job import Terms
from stampede_guard.leases.jobs.run import Run
from stampede_guard.leases.jobs.schedule import slot_of
from stampede_guard.leases.jobs.threads import in_thread
from stampede_guard.leases.runs.words import Ending

if TYPE_CHECKING:
    from stampede_guard.leases.jobs.scheduler import Jobs

__all__ = ["once_per_slot"]

R = TypeVar("R")


def once_per_slot(
    jobs: Jobs, *, rhythm: float = 0.0, **terms: Any
) -> Callable[[Callable[..., Any]], Callable[..., Coroutine[Any, Any, Any | Skipped]]]:
    """Returns what the function returned, or `SKIPPED` where another worker had the slot or a run still went on.

    `rhythm`: seconds between two slots, for the dead-man signal; APScheduler 4 does not tell. `terms` as for
    `jobs.cron`. What the function raises is raised. Raises `Misuse` outside a schedule's job.
    """
    slots = ForeignSlots(jobs)
    checked = Terms(**terms)

    def decorate(function: Callable[..., Any]) -> Callable[..., Coroutine[Any, Any, Any | Skipped]]:
        @functools.wraps(function)
        async def call(*args: Any, **kwargs: Any) -> Any | Skipped:
            name, slot = _current()
            result: list[Any] = []
            raised: list[Exception] = []

            async def call_it(run: Run) -> None:
                try:
                    if inspect.iscoroutinefunction(function):
                        result.append(await function(*args, **kwargs))
                    else:
                        result.append(await in_thread(lambda: function(*args, **kwargs), name=name, run=run))
                except Exception as error:
                    raised.append(error)
                    raise

            ending = await slots.run(
                name, Kept(f"APScheduler schedule {name}", rhythm), slot, call_it, checked
            )
            if raised:
                raise raised[0]
            if not isinstance(ending, Ending) or ending.outcome in ("skipped", "missed"):
                return SKIPPED
            if ending.outcome != "completed":
                raise RuntimeError(ending.error)
            return result[0]

        return call

    return decorate


def _current() -> tuple[str, int]:
    from apscheduler import current_job

    job = current_job.get(None)
    if job is None or job.schedule_id is None or job.original_scheduled_time is None:
        raise Misuse(
            "once_per_slot is for functions that a schedule of APScheduler 4 runs: use add_schedule(..., id=...)"
        )
    return job.schedule_id, slot_of(job.original_scheduled_time)
