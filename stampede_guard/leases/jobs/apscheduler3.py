"""APScheduler 3 as it is: an executor that runs each firing in one worker.

    scheduler = AsyncIOScheduler(executors={"default": SlotExecutor(jobs)})

Nothing else changes: jobs, triggers, job stores, listeners. A firing that another worker has taken is no event; one
that was skipped or missed is `EVENT_JOB_MISSED`. Jobs are known by their `id`, so give each one: without, APScheduler
invents another in each worker.
"""

from __future__ import annotations

import asyncio
import inspect
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_JOB_MISSED, JobExecutionEvent
from apscheduler.executors.base import BaseExecutor
from apscheduler.triggers.interval import IntervalTrigger

from stampede_guard.errors import Misuse, StoreError
from stampede_guard.leases.jobs.foreign import ForeignSlots, Kept
from stampede_guard.leases.jobs.job import Terms
from stampede_guard.leases.jobs.run import Run
from stampede_guard.leases.jobs.schedule import slot_of
from stampede_guard.leases.jobs.telling import log
from stampede_guard.leases.jobs.threads import in_thread
from stampede_guard.leases.runs.words import Ending, Taken

if TYPE_CHECKING:
    from stampede_guard.leases.jobs.scheduler import Jobs

__all__ = ["SlotExecutor"]

_INVENTED_ID = 32
"""Length of the hexadecimal UUID that stands for a missing id."""
_FOR_EVER = 10 * 365 * 86_400.0
"""What `misfire_grace_time=None` means to APScheduler."""


class SlotExecutor(BaseExecutor):  # type: ignore[misc]
    """For `AsyncIOScheduler`. `terms` as for `jobs.cron`; `misfire_grace` is the job's own where it has one.

    An interval without a start date begins in each worker when that was started. Its slots are the multiples of the
    interval since 1970, so that it still runs once per interval among all workers, in the phase of one of them.
    """

    def __init__(self, jobs: Jobs, **terms: Any) -> None:
        super().__init__()
        self._jobs = jobs
        self._slots = ForeignSlots(jobs)
        self._terms = terms
        self._pending: set[asyncio.Task[None]] = set()
        self._loop: Any = None
        Terms(**terms)

    def start(self, scheduler: Any, alias: str) -> None:
        super().start(scheduler, alias)
        self._loop = getattr(scheduler, "_eventloop", None)
        if self._loop is None:
            raise Misuse(f"SlotExecutor is for AsyncIOScheduler; this is a {type(scheduler).__name__}")

    def shutdown(self, wait: bool = True) -> None:
        """Runs are cancelled, as with APScheduler's own executor; their slots are `abandoned`."""
        for task in self._pending:
            task.cancel()

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        task = self._loop.create_task(self._run_all(job, run_times))
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)

    async def _run_all(self, job: Any, run_times: list[datetime]) -> None:
        events: list[Any] = []
        try:
            for run_time in run_times:
                event = await self._run_one(job, run_time)
                if event is not None:
                    events.append(event)
        except asyncio.CancelledError:
            self._run_job_success(job.id, events)
            raise
        except BaseException as error:
            self._run_job_error(job.id, error, sys.exc_info()[2])
        else:
            self._run_job_success(job.id, events)

    async def _run_one(self, job: Any, run_time: datetime) -> Any:
        if len(job.id) == _INVENTED_ID and _is_hexadecimal(job.id):
            raise Misuse(
                f"the job {job.name!r} has no id of its own, so no other worker knows it: add_job(..., id={job.name!r})"
            )
        result: dict[str, Any] = {}

        async def call(run: Run) -> None:
            try:
                if inspect.iscoroutinefunction(job.func):
                    result["retval"] = await job.func(*job.args, **job.kwargs)
                else:
                    result["retval"] = await in_thread(
                        lambda: job.func(*job.args, **job.kwargs), name=job.id, run=run
                    )
            except Exception as error:
                result["exception"] = error
                raise

        try:
            ending = await self._slots.run(
                job.id,
                _kept(job.trigger),
                _slot(job.trigger, run_time),
                call,
                self._terms_of(job),
                late=(datetime.now(UTC) - run_time).total_seconds(),
            )
        except StoreError as error:
            log.error("job %s: nothing starts, for the back end is away: %s", job.id, error)
            return self._event(EVENT_JOB_MISSED, job, run_time)
        if isinstance(ending, Taken):
            return None
        return self._told(job, run_time, ending, result)

    def _told(self, job: Any, run_time: datetime, ending: Ending, result: dict[str, Any]) -> Any:
        if ending.outcome == "completed":
            return self._event(EVENT_JOB_EXECUTED, job, run_time, retval=result.get("retval"))
        if ending.outcome == "failed":
            error = result.get("exception") or RuntimeError(ending.error)
            return self._event(EVENT_JOB_ERROR, job, run_time, exception=error, traceback=ending.error)
        return self._event(EVENT_JOB_MISSED, job, run_time)

    def _terms_of(self, job: Any) -> Terms:
        overlap = "skip" if job.max_instances == 1 else "allow"
        own = {"misfire_grace": float(job.misfire_grace_time or _FOR_EVER), "overlap": overlap}
        return Terms(**{**own, **self._terms})

    @staticmethod
    def _event(code: int, job: Any, run_time: datetime, **more: Any) -> Any:
        return JobExecutionEvent(code, job.id, job._jobstore_alias, run_time, **more)


def _kept(trigger: Any) -> Kept:
    if isinstance(trigger, IntervalTrigger):
        return Kept(f"every {trigger.interval_length:g} s", trigger.interval_length)
    return Kept(f"{trigger} {getattr(trigger, 'timezone', '')}".strip(), _longest_gap(trigger))


def _longest_gap(trigger: Any) -> float:
    """In seconds, over some firings; 0 for what fires once, or where a trigger cannot be asked."""
    longest, earlier = 0.0, None
    now = datetime.fromtimestamp(1_767_225_600, tz=getattr(trigger, "timezone", None))
    for _ in range(32):
        following = trigger.get_next_fire_time(earlier, earlier or now)
        if following is None or following == earlier:
            break
        if earlier is not None:
            longest = max(longest, (following - earlier).total_seconds())
        now = earlier = following
    return longest


def _slot(trigger: Any, run_time: datetime) -> int:
    slot = slot_of(run_time)
    if isinstance(trigger, IntervalTrigger):
        step: int = round(trigger.interval_length * 1000)
        return slot // step * step
    return slot


def _is_hexadecimal(text: str) -> bool:
    return all(character in "0123456789abcdef" for character in text)
