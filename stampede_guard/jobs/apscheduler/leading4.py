"""The leader mode for APScheduler 4. Its scheduler cannot be paused, so the elected worker runs it and stops it.

Within `async with AsyncScheduler()`, a stopped scheduler keeps its schedules and can run again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from stampede_guard.errors import Misuse
from stampede_guard.jobs.reporting import log
from stampede_guard.leases.lease import Lease

__all__ = ["running"]


def running(scheduler: Any) -> Callable[[Lease], Coroutine[Any, Any, None]]:
    """Raises `Misuse` for the synchronous `Scheduler`, and for a scheduler that already runs."""
    if not inspect.iscoroutinefunction(scheduler.run_until_stopped):
        raise Misuse(f"leading() needs an AsyncScheduler, not a {type(scheduler).__name__}")
    _check(scheduler)

    async def lead(lease: Lease) -> None:
        _check(scheduler)
        if lease.succeeds:
            await _pass_over(scheduler)
        try:
            await scheduler.run_until_stopped()
        finally:
            await _drop_queued(scheduler)
        log.error(
            "the scheduler was stopped while it led, not by its election: nothing runs until another leads"
        )

    return lead


def _check(scheduler: Any) -> None:
    if scheduler.state.name != "stopped":
        raise Misuse(
            "the scheduler runs before it is elected, perhaps in every worker: do not call start_in_background() or "
            "run_until_stopped(); the election runs it"
        )


def _in_memory(scheduler: Any) -> bool:
    """Whether the data store is in memory. A shared store knows itself what has run."""
    from apscheduler.datastores.memory import MemoryDataStore

    return isinstance(scheduler.data_store, MemoryDataStore)


async def _pass_over(scheduler: Any) -> None:
    """Skip the firings of schedules in memory that fell due while another worker led. They belonged to that worker."""
    if not _in_memory(scheduler):
        return
    now = datetime.now(UTC)
    for schedule in await scheduler.get_schedules():
        if not schedule.paused and schedule.next_fire_time is not None and schedule.next_fire_time <= now:
            await scheduler.unpause_schedule(schedule.id, resume_from="now")


async def _drop_queued(scheduler: Any) -> None:
    """Drop the firings that this leader has not begun. Otherwise they would run when it leads again."""
    from apscheduler import JobOutcome, JobResult

    if not _in_memory(scheduler):
        return
    for job in await scheduler.data_store.get_jobs():
        if job.schedule_id is not None:
            dropped = JobResult.from_job(job, JobOutcome.cancelled)
            await scheduler.data_store.release_job(scheduler.identity, job, dropped)
