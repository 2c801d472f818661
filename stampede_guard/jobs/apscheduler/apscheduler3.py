"""APScheduler 3, unchanged: an executor that runs each firing in one worker.

    scheduler = AsyncIOScheduler(executors={"default": SlotExecutor(jobs)})

Nothing else changes: jobs, triggers, job stores, listeners. A firing that another worker has taken causes no event.
A skipped or missed firing is `EVENT_JOB_MISSED`. A job is identified by its `id`, so give each job an `id`. Otherwise
APScheduler invents a different one in each worker.
"""

from __future__ import annotations

import asyncio
import traceback
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Unpack

from apscheduler.events import (
    EVENT_JOB_ADDED,
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MISSED,
    JobExecutionEvent,
)
from apscheduler.executors.base import BaseExecutor, MaxInstancesReachedError

from stampede_guard.errors import Misuse, StoreError
from stampede_guard.jobs.apscheduler.external import (
    FOR_EVER,
    ExternalSchedule,
    ForeignSlots,
    foreign_terms,
    remember,
)
from stampede_guard.jobs.apscheduler.triggers3 import kept_of, slot_at
from stampede_guard.jobs.job import SlotOptions, Terms
from stampede_guard.jobs.messages import Ending, Taken
from stampede_guard.jobs.reporting import log
from stampede_guard.jobs.run import Run
from stampede_guard.jobs.threads import result_of

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from stampede_guard.jobs.scheduler import Jobs

__all__ = ["SlotExecutor"]

_INVENTED_ID = 32
"""The length of the hexadecimal UUID that APScheduler invents for a job without an id."""


class SlotExecutor(BaseExecutor):  # type: ignore[misc]
    """For `AsyncIOScheduler`. `terms`: as for `jobs.cron`, without `coalesce` and `retry_abandoned`.

    By default `misfire_grace` is the job's `misfire_grace_time`. By default `overlap` is `skip` for a job with
    `max_instances=1`, and `allow` for more. Raises `Misuse` or `PolicyError` for invalid terms.

    An interval without a start date begins in each worker at its start. Its slots are the multiples of the interval
    since 1970. So it runs once per interval among all workers, in the phase of one of them.
    """

    def __init__(self, jobs: Jobs, **terms: Unpack[SlotOptions]) -> None:
        super().__init__()
        self._slots = ForeignSlots(jobs)
        self._given = terms
        self._pending: set[asyncio.Task[Any]] = set()
        self._loop: Any = None
        self._alias = ""
        self._schedules: dict[str, ExternalSchedule] = {}
        foreign_terms(terms)

    def start(self, scheduler: Any, alias: str) -> None:
        super().start(scheduler, alias)
        self._alias = alias
        self._loop = getattr(scheduler, "_eventloop", None)
        if self._loop is None:
            raise Misuse(f"SlotExecutor is for AsyncIOScheduler; this is a {type(scheduler).__name__}")
        scheduler.add_listener(self._added, EVENT_JOB_ADDED)

    def shutdown(self, wait: bool = True) -> None:
        """Cancel all runs, as APScheduler's own executor does. Their slots are `abandoned`."""
        self._scheduler.remove_listener(self._added)
        for task in self._pending:
            task.cancel()

    def submit_job(self, job: Any, run_times: list[datetime]) -> None:
        """As APScheduler's own method. But a firing gets an outcome even while a run of the job goes on here."""
        if "overlap" in self._given:
            # Submit it in any case: `overlap` decides after the claim whether it waits for that run, or ends it.
            with self._lock:
                self._do_submit_job(job, run_times)
                self._instances[job.id] += 1
            return
        try:
            super().submit_job(job, run_times)
        except MaxInstancesReachedError:
            if job.max_instances == 1:
                self._begin(self._skip_all(job, run_times))
            raise

    # --- a job is added

    def _added(self, event: Any) -> None:
        """Register a job before its first firing, so that it becomes overdue if it never fires. In any thread."""
        job = self._scheduler.get_job(event.job_id, event.jobstore)
        if job is not None and job.executor == self._alias:
            self._loop.call_soon_threadsafe(lambda: self._begin(self._register(job)))

    async def _register(self, job: Any) -> None:
        try:
            self._check(job)
            await self._slots.register(job.id, self._schedule_of(job), self._terms_of(job))
        except StoreError as error:
            log.warning("job %s is not registered before its first firing: %s", job.id, error)
        except Misuse as mistake:
            log.error("the job %s will not run: %s", job.name, mistake)

    def _check(self, job: Any) -> None:
        if len(job.id) == _INVENTED_ID and _is_hexadecimal(job.id):
            raise Misuse(
                f"the job {job.name!r} has no id of its own, so no other worker knows it: write add_job(..., "
                f"id={job.name!r}); if the id is your own UUID, add a prefix"
            )
        others = [alias for alias in self._scheduler._jobstores if alias != job._jobstore_alias]
        for alias in others:
            if self._scheduler.get_job(job.id, alias) is not None:
                raise Misuse(
                    f"two jobs have the id {job.id!r}, in the job stores {job._jobstore_alias!r} and {alias!r}: "
                    "give one of them another id"
                )

    # --- a job fires

    def _do_submit_job(self, job: Any, run_times: list[datetime]) -> None:
        events: list[Any] = []
        task = self._begin(self._run_all(job, run_times, events))
        # A callback, because the task may be cancelled before it begins. Otherwise the job would count as running for
        # ever.
        task.add_done_callback(lambda ended: self._ended(job, events, ended))

    def _begin(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = self._loop.create_task(work)
        self._pending.add(task)
        task.add_done_callback(self._pending.discard)
        return task

    def _ended(self, job: Any, events: list[Any], task: asyncio.Task[BaseException | None]) -> None:
        error = None if task.cancelled() else task.result()
        if error is None:
            self._run_job_success(job.id, events)
            return
        self._run_job_error(job.id, error, error.__traceback__)
        for event in events:
            self._scheduler._dispatch_event(event)

    async def _run_all(self, job: Any, run_times: list[datetime], events: list[Any]) -> BaseException | None:
        """Returns an error that did not come from the job's function, or None.

        An exception that ends a program ends only the job, as in APScheduler's own executor.
        """
        for run_time in run_times:
            try:
                event = await self._run_one(job, run_time)
            except asyncio.CancelledError as cancelled:
                events.append(self._error(job, run_time, cancelled))
                raise
            except BaseException as error:
                return error
            if event is not None:
                events.append(event)
        return None

    async def _skip_all(self, job: Any, run_times: list[datetime]) -> None:
        for run_time in run_times:
            try:
                await self._slots.run(
                    job.id,
                    self._schedule_of(job),
                    slot_at(job.trigger, run_time),
                    _never,
                    self._terms_of(job),
                    skipped="an earlier run still goes on in this worker",
                )
            except (StoreError, Misuse) as error:
                log.warning("job %s: the outcome 'skipped' is not stored: %s", job.id, error)

    async def _run_one(self, job: Any, run_time: datetime) -> Any:
        self._check(job)
        result: dict[str, Any] = {}

        async def call(run: Run) -> Any:
            try:
                result["retval"] = await result_of(job.func, job.args, job.kwargs, name=job.id, run=run)
                return result["retval"]
            except Exception as error:
                result["exception"] = error
                raise

        try:
            ending = await self._slots.run(
                job.id,
                self._schedule_of(job),
                slot_at(job.trigger, run_time),
                call,
                self._terms_of(job),
                late=(datetime.now(UTC) - run_time).total_seconds(),
            )
        except StoreError as error:
            log.error("job %s: no run starts because the back end is away: %s", job.id, error)
            return self._event(EVENT_JOB_MISSED, job, run_time)
        if isinstance(ending, Taken):
            return None
        return self._told(job, run_time, ending, result)

    def _told(self, job: Any, run_time: datetime, ending: Ending, result: dict[str, Any]) -> Any:
        if ending.outcome == "completed":
            return self._event(EVENT_JOB_EXECUTED, job, run_time, retval=result.get("retval"))
        if ending.outcome == "failed":
            return self._error(job, run_time, result.get("exception") or RuntimeError(ending.error))
        return self._event(EVENT_JOB_MISSED, job, run_time)

    def _error(self, job: Any, run_time: datetime, error: BaseException) -> Any:
        trace = "".join(traceback.format_tb(error.__traceback__))
        return self._event(EVENT_JOB_ERROR, job, run_time, exception=error, traceback=trace)

    def _schedule_of(self, job: Any) -> ExternalSchedule:
        # Cached: computing the rhythm at each firing would cost more than the firing.
        text = f"{job.trigger!r}"
        if text not in self._schedules:
            remember(self._schedules, text, kept_of(job.trigger))
        return self._schedules[text]

    def _terms_of(self, job: Any) -> Terms:
        return foreign_terms(
            self._given,
            misfire_grace=float(job.misfire_grace_time or FOR_EVER),
            overlap="skip" if job.max_instances == 1 else "allow",
        )

    @staticmethod
    def _event(code: int, job: Any, run_time: datetime, **more: Any) -> Any:
        return JobExecutionEvent(code, job.id, job._jobstore_alias, run_time, **more)


async def _never(_run: Run) -> None:
    raise AssertionError("a skipped firing is not run")


def _is_hexadecimal(text: str) -> bool:
    return all(character in "0123456789abcdef" for character in text)
