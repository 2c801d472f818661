"""The runs that this worker has begun. Each stays here until it has ended and its outcome is stored."""

from __future__ import annotations

import asyncio
import contextlib

from stampede_guard.jobs.execution import Execution
from stampede_guard.jobs.messages import Ending
from stampede_guard.jobs.reporting import log

__all__ = ["CANCELLED_FOR", "Running", "ended"]

CANCELLED_FOR = 15.0
"""Seconds that cancelled runs have to end and to store their outcome when the worker stops."""


class Running:
    """The runs that go on. `len()` is their number."""

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
        """Run it, and return how it ended, even if a stop of the worker ended it.

        If this call is cancelled, it cancels the run and waits for its end.
        """
        task = self.begin(execution)
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})
            raise
        return ended(execution, task)

    def hurry(self) -> None:
        """End the patience of `drain()`: it cancels the remaining runs now."""
        self._hurried = True
        if self._patience is not None and not self._patience.expired():
            self._patience.reschedule(asyncio.get_running_loop().time())

    async def drain(self, seconds: float) -> None:
        """Wait until all runs have ended. After `seconds` they are cancelled, and have `CANCELLED_FOR` more."""
        # Do not cancel a run before its first turn in the event loop: its slot would get no outcome.
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
            log.error(
                "%s the run goes on though it was cancelled; the worker no longer waits for it", left[task]
            )


def ended(execution: Execution, run: asyncio.Task[Ending]) -> Ending:
    """How a finished run ended. If a stop of the worker cancelled the run, the caller that waits is not cancelled."""
    if run.cancelled() and execution.ending is not None:
        return execution.ending
    return run.result()


def log_end(task: asyncio.Task[Ending] | asyncio.Task[None]) -> None:
    """Log an unexpected error of a task. The event loop itself raises an exception that ends the program."""
    if not task.cancelled() and isinstance(error := task.exception(), Exception):
        log.error("%s ended because of a bug in stampede_guard", task.get_name(), exc_info=error)
