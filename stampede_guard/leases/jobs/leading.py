"""The leader mode, for those who want one worker to have the scheduler: it runs where the election was won.

    scheduler.start(paused=True)                                              # APScheduler 3
    election = leases.election("scheduler", on_elected=leading(scheduler))

    async with AsyncScheduler() as scheduler:                                 # APScheduler 4: not started at all
        election = leases.election("scheduler", on_elected=leading(scheduler))

Whoever succeeds another leader passes over what fell due while that one led: its own jobs in memory know nothing of
his runs. So between two leaders a firing may be lost, or, where a leader was stopped in the middle of it, begun twice.
Slots (`SlotExecutor`, `once_per_slot`) have neither fault, and need no leader.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from datetime import UTC, datetime
from typing import Any

from stampede_guard.errors import Misuse
from stampede_guard.leases.jobs.telling import log
from stampede_guard.leases.lease import Lease

__all__ = ["leading"]

_LOOK_EVERY = 0.05
"""Seconds between two looks at a pool of threads, which tells nobody when it is done."""
_RUNNING = 1
"""State of APScheduler 3: neither paused nor stopped."""


def leading(scheduler: Any) -> Callable[[Lease], Coroutine[Any, Any, None]]:
    """For `on_elected`: a scheduler of APScheduler 3 is resumed, and paused when leadership ends; an `AsyncScheduler`
    of version 4 is run, and stopped.

    What it runs then is cancelled where it is coroutines. Threads cannot be: the lease is kept until they end, as long
    as that can be had. Raises `Misuse` for what can be neither paused nor run.
    """
    if hasattr(scheduler, "run_until_stopped"):
        from stampede_guard.leases.jobs.leading4 import running

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
        raise Misuse("the scheduler that is to lead was not started, or was shut down: start(paused=True)")
    if scheduler.state == _RUNNING:
        scheduler.pause()
        log.error("a scheduler ran before it was elected, as in each other worker: start(paused=True)")


def _pass_over(scheduler: Any) -> None:
    """What fell due in memory while another led was his. A store that is shared knows itself what was run."""
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
    """Of the firings that one task of APScheduler's own runs one after the other, where a job does not coalesce: it
    takes a cancellation for the error of one of them, and goes on with the next."""
    frame = getattr(run.get_coro(), "cr_frame", None)
    firings = frame.f_locals.get("run_times") if frame is not None else None
    if isinstance(firings, list):
        firings.clear()


def _when_it_has_looked(scheduler: Any) -> None:
    """A scheduler with a thread of its own may be about to begin what it has found before it was paused."""
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
        # Any other future stands for a thread: cancelled it would say that it has ended, while the thread goes on.
        if isinstance(run, asyncio.Task):
            _leave_out_the_rest(run)
            run.cancel()
    if running:
        await asyncio.wait(running)
    pools = [executor for executor in executors if hasattr(executor, "_pool")]
    # A run that ended while it was being submitted leaves a 0.
    while any(any(list(executor._instances.values())) for executor in pools):  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(_LOOK_EVERY)
