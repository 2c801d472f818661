"""`once_per_slot`: of all messages that beats send for one tick, one runs."""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar, Unpack

from celery.exceptions import Ignore, Reject

from stampede_guard.errors import Misuse
from stampede_guard.integrations.celery.functions import check_first, plain_function
from stampede_guard.integrations.celery.stamps import MARK, Stamp
from stampede_guard.jobs.apscheduler.external import FOR_EVER, ForeignSlots
from stampede_guard.jobs.job import SlotOptions, Terms, terms_of
from stampede_guard.jobs.messages import Ending
from stampede_guard.jobs.run import Run, given
from stampede_guard.jobs.scheduler import Jobs
from stampede_guard.jobs.threads import CallersThread
from stampede_guard.options import ALL, takes_options

__all__ = ["once_per_slot"]

P = ParamSpec("P")
R = TypeVar("R")

log = logging.getLogger("stampede_guard.jobs")


def _refuse_of_jobs(given_terms: Mapping[str, Any], _known: Iterable[str]) -> None:
    for name in sorted({"coalesce", "retry_abandoned"} & set(given_terms)):
        raise Misuse(
            f"{name} cannot be set for a task of Celery: beat sends each tick once, and a slot runs at most once. Use "
            "@jobs.cron for a job that must run again after a crash"
        )


@takes_options("once_per_slot", own=ALL, refuse=_refuse_of_jobs)
def once_per_slot(
    jobs: Jobs, **terms: Unpack[SlotOptions]
) -> Callable[[Callable[P, R]], Callable[P, R | None]]:
    """A task that beat sends runs once per tick, however many beats send it. All other messages return None.

    The job has the name of the entry in the beat schedule. `terms`: as for `jobs.cron`, without `coalesce` and
    `retry_abandoned`. `misfire_grace` counts from when beat sent the message, and is unlimited by default.
    `current_run()` is the run, as in other jobs. Write it below `@app.task`.

    A task that was not sent by a beat has no slot, and simply runs. A slot runs at most once: if its worker is killed,
    it is `abandoned`. `self.retry()` runs again: each retry has a slot of its own, one millisecond after the one
    before. The task raises the function's own exception. It raises `StoreError` while the back end is away: then
    nothing ran. Raises `Misuse` for invalid terms, a coroutine function or a task.
    """
    check_first(jobs, Jobs, "once_per_slot", "jobs")
    slots, checked = ForeignSlots(jobs), terms_of({"misfire_grace": FOR_EVER, **terms})

    def decorate(function: Callable[P, R]) -> Callable[P, R | None]:
        plain_function(function, "once_per_slot")

        told: list[bool] = []

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R | None:
            stamp = Stamp.of_this_task()
            if stamp is not None:
                work = functools.partial(function, *args, **kwargs)
                result: R | None = _Message(slots, checked, stamp, work).result()
                return result
            if not told:
                told.append(True)
                log.warning(
                    "task %s runs without a slot: no beat has sent it, or a beat that does not import this task",
                    function.__qualname__,
                )
            return function(*args, **kwargs)

        setattr(call, MARK, True)
        call.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
        return call

    return decorate


class _Message:
    """One message. `raised`: what the function raised, however the run ended."""

    def __init__(self, slots: ForeignSlots, terms: Terms, stamp: Stamp, function: Callable[[], Any]) -> None:
        self._slots = slots
        self._terms = terms
        self._stamp = stamp
        self._function = function
        self._thread = CallersThread()
        self._returned: list[Any] = []
        self._raised: list[BaseException] = []

    def result(self) -> Any:
        stamp = self._stamp
        ending = self._thread.wait(
            lambda: self._slots.run(
                stamp.job, stamp.schedule, stamp.slot, self._run, self._terms, late=stamp.late
            ),
            in_child=lambda: None,
        )
        if self._raised:
            raise self._raised[0]
        if ending is None:  # in a child that the function has forked
            return self._returned[0]
        if not isinstance(ending, Ending) or ending.outcome in ("skipped", "missed"):
            return None
        if ending.outcome != "completed":
            raise RuntimeError(f"job {stamp.job}: {ending.error}")
        return self._returned[0]

    async def _run(self, run: Run) -> None:
        with given(run):
            await self._thread.run(self._work, name=self._stamp.job, run=run)

    def _work(self) -> None:
        """In the thread of the task."""
        self._stamp.take()
        try:
            self._returned.append(self._function())
        except (Ignore, Reject) as end:
            # The task has decided how its message ends. The run has completed.
            self._raised.append(end)
        except BaseException as error:
            self._raised.append(error)
            if isinstance(error, Exception):
                raise
            # An exit would end the event loop that waits for this.
            raise RuntimeError(f"the task raised {type(error).__name__}") from error
