"""The leader mode for APScheduler 4, whose scheduler cannot be paused: it is run where the election was won.

One that is run within `async with AsyncScheduler()` keeps its schedules when it is stopped, and can be run again.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from stampede_guard.errors import Misuse
from stampede_guard.leases.jobs.telling import log
from stampede_guard.leases.lease import Lease

__all__ = ["running"]


def running(scheduler: Any) -> Callable[[Lease], Coroutine[Any, Any, None]]:
    """Raises `Misuse` for the synchronous `Scheduler`, and for one that runs already."""
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
        log.error("the scheduler was stopped by somebody else while it led: nothing runs until another leads")

    return lead


def _check(scheduler: Any) -> None:
    if scheduler.state.name != "stopped":
        raise Misuse(
            "the scheduler runs before it is elected, as in each other worker: leave out start_in_background() and "
            "run_until_stopped(), the election runs it"
        )


def _in_memory(scheduler: Any) -> bool:
    """A store that is shared knows what was run, and is left alone."""
    from apscheduler.datastores.memory import MemoryDataStore

    return isinstance(scheduler.data_store, MemoryDataStore)


async def _pass_over(scheduler: Any) -> None:
    """What fell due in memory while another led was his."""
    if not _in_memory(scheduler):
        return
    now = datetime.now(UTC)
    for schedule in await scheduler.get_schedules():
        if not schedule.paused and schedule.next_fire_time is not None and schedule.next_fire_time <= now:
            await scheduler.unpause_schedule(schedule.id, resume_from="now")


async def _drop_queued(scheduler: Any) -> None:
    """Firings that this leader did not come to: else they would run when it leads again."""
    from apscheduler import JobOutcome, JobResult

    if not _in_memory(scheduler):
        return
    for job in await scheduler.data_store.get_jobs():
        if job.schedule_id is not None:
            dropped = JobResult.from_job(job, JobOutcome.cancelled)
            await scheduler.data_store.release_job(scheduler.identity, job, dropped)
