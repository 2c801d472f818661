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
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any, Protocol

from stampede_guard.errors import ComputeFailed

__all__ = ["Threads", "Waiting", "look_again", "waiting"]

IDLE_SECONDS = 10.0
"""How long a thread without work is kept."""

PATIENCE = 1.0
"""Seconds without any progress after which a job may use the place of one that waits, nobody sees what for."""

_HERE = threading.local()
_CROWDED: set[Threads] = set()
"""Pools with jobs that have no place."""


class Waiting(Protocol):
    """What a thread knows of the flight that it computes for: which flights that waits for, all of them so."""

    @property
    def awaits(self) -> Collection[Any]: ...


class _Job:
    """`ended` is never cancelled: it tells when the thread is done, also when nobody wants the result any more.

    `placed`: it has one of the places. `parked`: its thread waits for a cached function, or to have a place again.
    `lender`: the job whose place it was given.
    """

    def __init__(self, function: Callable[[], Any], flight: Waiting | None) -> None:
        self.flight = flight
        self.placed = False
        self.parked = False
        self.lender: _Job | None = None
        self.turn: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._function = function
        self._context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Any] = self.loop.create_future()

    def carry_out(self) -> None:
        try:
            result = self._context.run(self._function)
        except BaseException as error:
            self.fail(_bearable(error))
        else:
            self._tell(self.ended.set_result, result)

    def fail(self, error: Exception) -> None:
        self._tell(self.ended.set_exception, error)

    def awaited(self) -> set[Any]:
        """The flights that its own one waits for, and those that these wait for, and so on."""
        return reached(self.flight) if self.flight is not None else set()

    def _tell(self, settle: Callable[[Any], None], outcome: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the event loop has been closed
            self.loop.call_soon_threadsafe(settle, outcome)


class Threads:
    """At most `limit` jobs are at work at once, those included that were left to themselves: `limit` places.

    A job gives up its place while it waits for another cached function, or `limit` computations that each call one
    would wait for ever. Its thread cannot be given up. So the place is not for whoever comes next, or each of 300 keys
    would have a thread that waits, but for a job along the chain: one that this job waits for, through whatever
    flights. Others begin only while fewer than `limit` threads exist. What has waited goes on with the next place.

    Some chains cannot be seen (a function that calls another one in a thread without its context). When no job has
    begun, ended or gone on for `PATIENCE`, the next one may use the place of one that waits for something.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._jobs: deque[_Job] = deque()
        self._back: deque[_Job] = deque()
        self._begun: set[_Job] = set()
        self._idle: list[queue.SimpleQueue[_Job | None]] = []
        self._busy = 0
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._moved = time.monotonic()
        """When a job has begun, ended, begun to wait or gone on."""

    @property
    def busy(self) -> int:
        """Jobs at work now, those included that were left to themselves."""
        return self._busy

    async def run(self, function: Callable[[], Any], flight: Waiting | None = None) -> Any:
        """What `function()` returns, called in a thread with a copy of this context. `flight`: whose computation it is.

        Cancelled while the job waits for a thread, it is dropped. Cancelled later, this ends with the thread and not
        before: a thread cannot be stopped, and whoever counts what was left to itself counts this coroutine.
        """
        job = _Job(function, flight)
        with self._lock:
            self._jobs.append(job)
            self._assign(moved=False)
        self._watch(job.loop)
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

    def look_again(self) -> None:
        """A flight waits for another one since a moment ago: a job that has no place may be along its chain."""
        with self._lock:
            self._assign(moved=False)

    def _drop(self, job: _Job) -> bool:
        with self._lock, contextlib.suppress(ValueError):
            self._jobs.remove(job)
            return True
        return False

    # --- places: all with the lock held ------------------------------------------------------------

    def _assign(self, *, moved: bool = True) -> None:
        if moved:
            self._moved = time.monotonic()
        while self._back and self._find_place(self._back[0], whoever=True):
            self._back.popleft().turn.put(None)
        for job in [job for job in self._back if self._find_place(job)]:
            self._back.remove(job)
            job.turn.put(None)
        while self._jobs and len(self._begun) < self._limit and self._find_place(self._jobs[0], whoever=True):
            self._begin(self._jobs.popleft())
        if self._jobs and self._begun:
            awaited = set().union(*(job.awaited() for job in self._begun))
            for job in [job for job in self._jobs if job.flight in awaited and self._find_place(job)]:
                self._jobs.remove(job)
                self._begin(job)
        (_CROWDED.add if self._jobs or self._back else _CROWDED.discard)(self)

    def _find_place(self, job: _Job, *, whoever: bool = False) -> bool:
        """A free place, or that of a job that waits for this one. `whoever`: a free one only."""
        if self._busy < self._limit:
            self._busy += 1
            job.placed, job.lender = True, None
            return True
        return not whoever and self._borrow(job, lambda lender: job.flight in lender.awaited())

    def _borrow(self, job: _Job, lends: Callable[[_Job], bool]) -> bool:
        """The place of a job whose thread we cannot see waiting, although its flight does."""
        for lender in self._begun:
            if lender.placed and lender.flight is not None and lends(lender):
                lender.placed = False
                job.placed, job.lender = True, lender
                return True
        return False

    def _give_up_place(self, job: _Job) -> None:
        lender, job.lender = job.lender, None
        if not job.placed:
            return
        job.placed = False
        if lender in self._begun and not lender.placed and not lender.parked:
            lender.placed = True
        else:
            self._busy -= 1

    def _begin(self, job: _Job) -> None:
        self._moved = time.monotonic()
        self._begun.add(job)
        if self._idle:
            self._idle.pop().put(job)
            return
        thread = threading.Thread(
            target=self._work, args=(job,), name="stampede_guard computation", daemon=True
        )
        try:
            thread.start()
        except RuntimeError as error:  # the process may have no more threads
            self._begun.discard(job)
            self._give_up_place(job)
            job.fail(error)

    # --- patience ----------------------------------------------------------------------------------

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._jobs and self._timer is None:
            self._timer = loop.call_later(PATIENCE, self._lose_patience, loop)

    def _lose_patience(self, loop: asyncio.AbstractEventLoop) -> None:
        self._timer = None
        with self._lock:
            self._assign(moved=False)
            if self._jobs and time.monotonic() - self._moved >= PATIENCE:
                job = self._jobs[0]
                free = self._busy < self._limit and any(other.parked for other in self._begun)
                if (free and self._find_place(job)) or self._borrow(
                    job, lambda lender: bool(lender.awaited())
                ):
                    self._jobs.popleft()
                    self._begin(job)
                    self._moved = time.monotonic()
        self._watch(loop)

    # --- threads -----------------------------------------------------------------------------------

    def _work(self, job: _Job | None) -> None:
        _HERE.pool = self
        inbox: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        while job is not None:
            _HERE.job = job
            job.carry_out()
            with self._lock:
                self._begun.discard(job)
                self._give_up_place(job)
                # Not kept while idle: it holds the function's arguments and result.
                _HERE.job = job = None
                goes = len(self._idle) >= self._limit or (self._closed and not self._jobs)
                if not goes:
                    self._idle.append(inbox)
                self._assign()
                if goes:
                    return
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

    def _park(self, job: _Job) -> None:
        with self._lock:
            job.parked = True
            self._give_up_place(job)
            self._assign()

    def _go_on(self, job: _Job) -> None:
        """Waits for a place. Who holds them either works, or waits and gives them up."""
        with self._lock:
            self._back.append(job)
            self._assign()
        job.turn.get()
        job.parked = False


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Around waiting for a cached function: if this thread is one of ours, its place is for whom it waits for."""
    pool: Threads | None = getattr(_HERE, "pool", None)
    job: _Job | None = getattr(_HERE, "job", None)
    if pool is None or job is None:
        yield
        return
    pool._park(job)
    try:
        yield
    finally:
        pool._go_on(job)


def reached(flight: Waiting) -> set[Any]:
    """The flights that this one waits for, directly or through others."""
    seen: set[Any] = set()
    # A copy of each, made in one step: another event loop may add to it now.
    ahead = list(flight.awaits)
    while ahead:
        other = ahead.pop()
        if other not in seen:
            seen.add(other)
            ahead.extend(list(other.awaits))
    return seen


def look_again() -> None:
    """To be called when a flight has begun to wait for another one, on any event loop.

    On the pool's own loop and not here: a signal's handler may interrupt this thread with the lock held, and call a
    cached function, which would wait for that lock.
    """
    for pool in list(_CROWDED):
        for job in list(pool._jobs)[:1] or list(pool._back)[:1]:
            with contextlib.suppress(RuntimeError):  # the event loop has been closed
                job.loop.call_soon_threadsafe(pool.look_again)


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
    _HERE.pool = _HERE.job = None
    _CROWDED.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
