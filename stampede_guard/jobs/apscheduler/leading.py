"""The leader mode: only the worker that won the election runs the scheduler.

    scheduler.start(paused=True)                                              # APScheduler 3
    election = leases.election("scheduler", on_elected=leading(scheduler))

    async with AsyncScheduler() as scheduler:                                 # APScheduler 4: do not start it
        election = leases.election("scheduler", on_elected=leading(scheduler))

A new leader that succeeds another skips the firings that fell due before. Its own jobs in memory do not know which of
them the earlier leader ran. So a change of leaders may lose a firing. If the earlier leader was stopped in the middle
of a run, that run may begin twice. Slots (`SlotExecutor`, `once_per_slot`) have neither fault, and need no leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from stampede_guard.errors import Misuse
from stampede_guard.jobs.apscheduler.leading4 import running
from stampede_guard.jobs.reporting import log
from stampede_guard.leases.lease import Lease

__all__ = ["leading"]

_LOOK_EVERY = 0.05
"""Seconds between two looks at a thread pool. A pool sends no event when its threads are done."""
_RUNNING = 1
"""The state of an APScheduler 3 that is neither paused nor stopped."""


def leading(scheduler: Any) -> Callable[[Lease], Coroutine[Any, Any, None]]:
    """For `on_elected`: the leader resumes an APScheduler 3, and pauses it when leadership ends.

    It runs an `AsyncScheduler` of version 4, and stops it when leadership ends. Then the coroutines of the scheduler
    are cancelled. Threads cannot be cancelled, so the leader keeps the lease until they end, as long as it can renew
    the lease. Raises `Misuse` for an object that can be neither paused nor run.
    """
    if hasattr(scheduler, "run_until_stopped"):
        return running(scheduler)
    if not all(callable(getattr(scheduler, name, None)) for name in ("pause", "resume")):
        raise Misuse(
            f"leading() needs a scheduler that can pause and resume, not a {type(scheduler).__name__}"
        )

    async def lead(lease: Lease) -> None:
        _check(scheduler)
        if lease.succeeds:
            _pass_over(scheduler)
        scheduler.resume()
        try:
            await asyncio.Event().wait()
        finally:
            if scheduler.running:
                scheduler.pause()
            await _end_runs(scheduler)

    return lead


def _check(scheduler: Any) -> None:
    if not scheduler.running:
        raise Misuse(
            "the scheduler was not started, or was shut down: call start(paused=True) before the election"
        )
    if scheduler.state == _RUNNING:
        scheduler.pause()
        log.error("the scheduler ran before it was elected, perhaps in every worker: call start(paused=True)")


def _pass_over(scheduler: Any) -> None:
    """Skip the firings of jobs in memory that fell due while another worker led. They belonged to that worker.

    A shared job store knows itself what has run.
    """
    from apscheduler.jobstores.memory import MemoryJobStore

    now = datetime.now(UTC)
    for alias, store in list(scheduler._jobstores.items()):
        if not isinstance(store, MemoryJobStore):
            continue
        for job in store.get_all_jobs():
            if job.next_run_time is None or job.next_run_time.astimezone(UTC) > now:
                continue
            following = _following(job.trigger, now)
            if following is None:
                scheduler.remove_job(job.id, alias)
            else:
                scheduler.modify_job(job.id, alias, next_run_time=following)


def _following(trigger: Any, now: datetime) -> datetime | None:
    following: datetime | None = trigger.get_next_fire_time(None, now)
    while following is not None and following.astimezone(UTC) <= now:
        following = trigger.get_next_fire_time(following, now)
    return following


def _leave_out_the_rest(run: asyncio.Task[Any]) -> None:
    """Drop the firings that this task has not begun yet.

    If a job does not coalesce, APScheduler runs its firings one after the other in one task. That task takes a
    cancellation for an error of one firing, and goes on with the next.
    """
    frame = getattr(run.get_coro(), "cr_frame", None)
    firings = frame.f_locals.get("run_times") if frame is not None else None
    if isinstance(firings, list):
        firings.clear()


def _when_it_has_looked(scheduler: Any) -> None:
    """Wait until the scheduler's thread has begun all firings that it found before it was paused."""
    with scheduler._jobstores_lock:
        pass


async def _end_runs(scheduler: Any) -> None:
    await asyncio.to_thread(_when_it_has_looked, scheduler)
    executors = list(getattr(scheduler, "_executors", {}).values())
    running: set[asyncio.Future[Any]] = set()
    for executor in executors:
        for pending in ("_pending_futures", "_pending"):
            running |= {run for run in getattr(executor, pending, ()) if not run.done()}
    for run in running:
        # Any other future stands for a thread. If cancelled, it would look finished although the thread goes on.
        if isinstance(run, asyncio.Task):
            _leave_out_the_rest(run)
            run.cancel()
    if running:
        await asyncio.wait(running)
    pools = [executor for executor in executors if hasattr(executor, "_pool")]
    # A run that ended while it was being submitted leaves a count of 0.
    while any(any(list(executor._instances.values())) for executor in pools):  # noqa: ASYNC110 - there is no event
        await asyncio.sleep(_LOOK_EVERY)
