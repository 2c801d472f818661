"""Our own threads, in which plain functions compute.

They are not the thread pool of the event loop or of a framework: the callers of a plain function wait in those threads.
If 40 callers wait for one computation in a framework's 40 threads, no thread is left for the computation.

The threads are daemons, so that an abandoned computation does not keep the process from ending.
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

from stampede_guard.engine.threads.greenlets import start_thread
from stampede_guard.errors import ComputeFailed
from stampede_guard.values.forks import in_children

__all__ = ["AwaitingFlight", "Threads", "bearable", "end_of", "look_again", "waiting"]

IDLE_SECONDS = 10.0
"""How long an idle thread is kept."""

PATIENCE = 1.0
"""Seconds without progress. After them, a job may use the place of a job that waits for an unknown reason."""

_HERE = threading.local()
_CROWDED: set[Threads] = set()
"""Pools with jobs that have no place."""


class AwaitingFlight(Protocol):
    """The part of a flight that threads use: the flights that it waits for. Each of them has this type, too."""

    @property
    def awaits(self) -> Collection[Any]: ...


class _Job:
    """`ended` is never cancelled. It is done when the thread is done, even if no caller wants the result.

    `placed`: the job has a place. `parked`: its thread waits for a cached function, or for a new place. `lender`: the
    job whose place it uses.
    """

    def __init__(self, function: Callable[[], Any], flight: AwaitingFlight | None) -> None:
        self.flight = flight
        self.placed = False
        self.parked = False
        self.lender: _Job | None = None
        self.turn: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._function = function
        self._process = os.getpid()
        self._context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Any] = self.loop.create_future()

    def carry_out(self) -> None:
        try:
            result = self._context.run(self._function)
        except BaseException as error:
            self.fail(bearable(error))
        else:
            self._tell(self.ended.set_result, result)

    def fail(self, error: Exception) -> None:
        self._tell(self.ended.set_exception, error)

    def awaited(self) -> set[Any]:
        """The flights that its own flight waits for, directly or through others."""
        return reached(self.flight) if self.flight is not None else set()

    @property
    def is_copy(self) -> bool:
        """Whether this is a forked child. The event loop, the other threads and the caller are in the parent."""
        return os.getpid() != self._process

    def _tell(self, settle: Callable[[Any], None], outcome: Any) -> None:
        if self.is_copy:
            return
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            self.loop.call_soon_threadsafe(settle, outcome)


class Threads:
    """At most `limit` jobs work at once, including abandoned ones: there are `limit` places.

    A job gives up its place while it waits for another cached function. Otherwise `limit` computations that each call
    one would wait for ever. Its thread cannot be given up. So the place does not go to the next job in the queue, or
    each of 300 keys would have a waiting thread. It goes to a job along the chain: one that this job waits for, through
    any number of flights. Other jobs begin only while fewer than `limit` threads exist. A job that has waited continues
    in the next free place.

    Some chains are invisible, for example when a function calls another one in a thread without its context. When no
    job has begun, ended or continued for `PATIENCE`, the next job may use the place of a waiting one.
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
        """The time when a job last began, ended, began to wait or continued."""

    @property
    def busy(self) -> int:
        """Jobs that work now, including abandoned ones."""
        return self._busy

    async def run(self, function: Callable[[], Any], flight: AwaitingFlight | None = None) -> Any:
        """The result of `function()`, called in a thread with a copy of this context. `flight`: the flight it serves.

        If this is cancelled while the job waits for a thread, the job is dropped. If it is cancelled later, it ends
        with the thread and not earlier. A thread cannot be stopped, and abandoned computations are counted by this
        coroutine.
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
                await end_of(job.ended)
            raise
        return job.ended.result()

    def close(self) -> None:
        """Idle threads end now. The others end with their job."""
        with self._lock:
            self._closed = True
            for inbox in self._idle:
                inbox.put(None)
            self._idle.clear()

    def look_again(self) -> None:
        """A flight has begun to wait for another one. A job without a place may be along its chain."""
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
            # In one walk: of 300 calls within each other, each waits for all that are deeper.
            awaited = reached(*(job.flight for job in self._begun if job.flight is not None))
            for job in [job for job in self._jobs if job.flight in awaited and self._find_place(job)]:
                self._jobs.remove(job)
                self._begin(job)
        (_CROWDED.add if self._jobs or self._back else _CROWDED.discard)(self)

    def _find_place(self, job: _Job, *, whoever: bool = False) -> bool:
        """A free place, or the place of a job that waits for this one. `whoever`: only a free one."""
        if self._busy < self._limit:
            self._busy += 1
            job.placed, job.lender = True, None
            return True
        return not whoever and self._borrow(job, lambda lender: job.flight in lender.awaited())

    def _borrow(self, job: _Job, lends: Callable[[_Job], bool]) -> bool:
        """Use the place of a job whose thread is not known to wait, although its flight waits."""
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
        try:
            start_thread(self._work, job, name="stampede_guard computation")
        except RuntimeError as error:  # the process has reached its limit of threads
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
            if job.is_copy:
                # The function has forked, and this is the only thread of the child: it ends with it.
                return
            with self._lock:
                self._begun.discard(job)
                self._give_up_place(job)
                # Do not keep it while idle: it holds the function's arguments and result.
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
        # A job was assigned at the very end of the time-out.
        return inbox.get()

    def _park(self, job: _Job) -> None:
        with self._lock:
            job.parked = True
            self._give_up_place(job)
            self._assign()

    def _go_on(self, job: _Job) -> None:
        """Wait for a place. The jobs that hold places either work, or wait and give them up."""
        with self._lock:
            self._back.append(job)
            self._assign()
        job.turn.get()
        job.parked = False


@contextlib.contextmanager
def waiting() -> Iterator[None]:
    """Used around the wait for a cached function. A thread of ours gives its place to a job that it waits for."""
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


def reached(*flights: AwaitingFlight) -> set[Any]:
    """The flights that these wait for, directly or through others."""
    seen: set[Any] = set()
    # Copies made in one step, because another event loop may add to it now.
    ahead = [other for flight in flights for other in list(flight.awaits)]
    while ahead:
        other = ahead.pop()
        if other not in seen:
            seen.add(other)
            ahead.extend(list(other.awaits))
    return seen


def look_again() -> None:
    """Call it when a flight has begun to wait for another one, on any event loop.

    It runs on the pool's own loop and not here. A signal handler may interrupt this thread while it holds the lock. If
    the handler called a cached function, that function would wait for the lock.
    """
    for pool in list(_CROWDED):
        for job in list(pool._jobs)[:1] or list(pool._back)[:1]:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                job.loop.call_soon_threadsafe(pool.look_again)


async def end_of(future: asyncio.Future[Any]) -> None:
    """Wait for the end, however often the wait is cancelled: the thread still uses objects that the caller closes."""
    while not future.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait({future})
    future.exception()


def bearable(error: BaseException) -> Exception:
    """An error that an event loop can pass on. `sys.exit()` in a thread must not end the loop of all callers."""
    if isinstance(error, StopIteration):
        made: Exception = RuntimeError("the function raised StopIteration")
        made.__cause__ = error
        return made
    if isinstance(error, Exception):
        return error
    failed = ComputeFailed(type(error).__name__, str(error))
    failed.__cause__ = error
    return failed


@in_children
def _after_fork() -> None:
    # A child that a computation has forked has one of our threads and no pool.
    _HERE.pool = _HERE.job = None
    _CROWDED.clear()
