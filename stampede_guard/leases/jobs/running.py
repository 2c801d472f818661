"""The runs that this worker has begun, each until it has ended and its outcome is written down."""

from __future__ import annotations

import asyncio
import contextlib

from stampede_guard.leases.jobs.execution import Execution
from stampede_guard.leases.jobs.telling import log
from stampede_guard.leases.runs.words import Ending

__all__ = ["CANCELLED_FOR", "Running", "ended"]

CANCELLED_FOR = 15.0
"""Seconds that the runs of a worker that stops have once they are cancelled, with what is to be written down."""


class Running:
    """`len()`: how many go on."""

    def __init__(self) -> None:
        self._tasks: dict[asyncio.Task[Ending], Execution] = {}
        self._hurried = False
        self._patience: asyncio.Timeout | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    def begin(self, execution: Execution) -> asyncio.Task[Ending]:
        task = asyncio.get_running_loop().create_task(execution.perform(), name="stampede_guard run")
        self._tasks[task] = execution
        task.add_done_callback(lambda ended: self._tasks.pop(ended, None))
        task.add_done_callback(log_end)
        return task

    async def perform(self, execution: Execution) -> Ending:
        """How it ended, also where a stop of the worker has ended it. Cancelled, it cancels the run, and waits."""
        task = self.begin(execution)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise
        return ended(execution, task)

    def hurry(self) -> None:
        """Whoever drains has no patience any more: what goes on is cancelled now."""
        self._hurried = True
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(asyncio.get_running_loop().time())

    async def drain(self, seconds: float) -> None:
        """Until all have ended. They have `seconds`, then they are cancelled and have `CANCELLED_FOR` more."""
        # Not cancelled before it has had its first turn: its slot would get no outcome.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.0 if self._hurried else seconds) as self._patience:
                while self._tasks:
                    await asyncio.wait(set(self._tasks))
        self._patience, self._hurried = None, False
        left = dict(self._tasks)
        if not left:
            return
        log.error("%d runs did not end within drain_timeout=%g s and are cancelled", len(left), seconds)
        for task, execution in left.items():
            execution.hurry(CANCELLED_FOR)
            task.cancel()
        _, ignoring = await asyncio.wait(left, timeout=CANCELLED_FOR)
        for task in ignoring:
            log.error("%s goes on though it was cancelled; it is not waited for any more", left[task])


def ended(execution: Execution, run: asyncio.Task[Ending]) -> Ending:
    """How a run that is over ended, also where its worker was stopped: who waited for it was not cancelled by that."""
    if run.cancelled() and execution.ending is not None:
        return execution.ending
    return run.result()


def log_end(task: asyncio.Task[Ending] | asyncio.Task[None]) -> None:
    """What ends the program is none of ours, and is raised in the event loop as well."""
    if not task.cancelled() and isinstance(error := task.exception(), Exception):
        log.error("%s ended by a mistake of ours", task.get_name(), exc_info=error)
