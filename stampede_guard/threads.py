"""Threads of our own, in which plain functions compute.

Not the thread pool of the event loop nor that of a framework: their threads are what the callers of a plain function
wait in. With 40 callers in a framework's 40 threads, all waiting for one computation, none would be left to compute in.

The threads are daemons, so that a computation left to itself does not keep the process from ending.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from stampede_guard.errors import ComputeFailed

__all__ = ["Threads", "waiting"]

IDLE_SECONDS = 10.0
"""How long a thread without work is kept."""

_HERE = threading.local()


class _Job:
    """`ended` is never cancelled: it tells when the thread is done, also when nobody wants the result any more."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._context = contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Any] = self._loop.create_future()

    def carry_out(self) -> None:
        try:
            result = self._context.run(self._function)
        except BaseException as error:
            self.fail(_bearable(error))
        else:
            self._tell(self.ended.set_result, result)

    def fail(self, error: Exception) -> None:
        self._tell(self.ended.set_exception, error)

    def _tell(self, settle: Callable[[Any], None], outcome: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop has been closed
            self._loop.call_soon_threadsafe(settle, outcome)


class Threads:
    """At most `limit` jobs are at work at once; one that waits for another cached function counts as none.

    Were it counted, `limit` computations that each call another cached function would wait for ever for a thread.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._jobs: deque[_Job] = deque()
        self._idle: list[queue.SimpleQueue[_Job | None]] = []
        self._busy = 0
        self._closed = False

    @property
    def busy(self) -> int:
        """Jobs at work now, those included that were left to themselves."""
        return self._busy

    async def run(self, function: Callable[[], Any]) -> Any:
        """What `function()` returns, called in a thread with a copy of this context.

        Cancelled while the job waits for a thread, it is dropped. Cancelled later, this ends with the thread and not
        before: a thread cannot be stopped, and whoever counts what was left to itself counts this coroutine.
        """
        job = _Job(function)
        with self._lock:
            self._jobs.append(job)
            self._assign()
        try:
            await asyncio.wait({job.ended})
        except asyncio.CancelledError:
            if not self._drop(job):
                await _end_of(job.ended)
            raise
        return job.ended.result()

    def close(self) -> None:
        """Idle threads end now, the others with their job."""
        with self._lock:
            self._closed = True
            for inbox in self._idle:
                inbox.put(None)
            self._idle.clear()

    def _drop(self, job: _Job) -> bool:
        with self._lock, contextlib.suppress(ValueError):
            self._jobs.remove(job)
            return True
        return False

    def _assign(self) -> None:
        """With the lock held."""
        while self._jobs and self._busy < self._limit:
            job = self._jobs.popleft()
            if self._idle:
                self._idle.pop().put(job)
            else:
                thread = threading.Thread(
                    target=self._work, args=(job,), name="stampede_guard computation", daemon=True
                )
                try:
                    thread.start()
                except RuntimeError as error:  # the process may have no more threads
                    job.fail(error)
                    continue
            self._busy += 1

    def _work(self, job: _Job | None) -> None:
        _HERE.pool = self
        inbox: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        while job is not None:
            job.carry_out()
            # Not kept while idle: it holds the function's arguments and result.
            job = None
            with self._lock:
                self._busy -= 1
                if self._closed and not self._jobs:
                    return
                self._idle.append(inbox)
                self._assign()
            job = self._next(inbox)

    def _next(self, inbox: queue.SimpleQueue[_Job | None]) -> _Job | None:
        with contextlib.suppress(queue.Empty):
            return inbox.get(timeout=IDLE_SECONDS)
        with self._lock:
            if inbox in self._idle:
                self._idle.remove(inbox)
                return None
        # Given a job at the very end of its patience.
        return inbox.get()

    def _waits(self) -> None:
        with self._lock:
            self._busy -= 1
            self._assign()

    def _goes_on(self) -> None:
        with self._lock:
            self._busy += 1


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Around waiting for a cached function: if this thread is one of ours, another one may work meanwhile."""
    pool: Threads | None = getattr(_HERE, "pool", None)
    if pool is None:
        yield
        return
    pool._waits()
    try:
        yield
    finally:
        pool._goes_on()


async def _end_of(future: asyncio.Future[Any]) -> None:
    """However often the waiting is cancelled: the thread still uses what its caller would close."""
    while not future.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({future})
    future.exception()


def _bearable(error: BaseException) -> Exception:
    """What an event loop can hand on: `sys.exit()` in a thread must not end the loop of all others."""
    if isinstance(error, StopIteration):
        made: Exception = RuntimeError("the function raised StopIteration")
        made.__cause__ = error
        return made
    if isinstance(error, Exception):
        return error
    failed = ComputeFailed(type(error).__name__, str(error))
    failed.__cause__ = error
    return failed


def _after_fork() -> None:
    # A child forked by a computation has one of our threads and no pool.
    _HERE.pool = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
