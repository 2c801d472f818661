"""A desk: a thread waits here for its call. While it waits, it runs the computation of that call.

This is for plain functions that must not leave their caller's thread (`in_thread=False`): a sqlite connection, a
thread-local session. The event loop of plain functions still makes the call: it renews the lease, and other callers of
the key wait there. It gives the computation back to the thread that it came from.

A signal handler may interrupt the wait and make a call of its own, which waits at another desk. It may wait for the
computation of the interrupted call. So whoever waits in a thread runs the computations of all desks of that thread.

A function may fork, and return in the child as well. The child has a copy of this thread and no event loop. There, the
call ends with the function's own result or error. The flight and its lease belong to the parent.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import contextvars
import functools
import os
import queue
import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from stampede_guard.engine.threads.threads import bearable, end_of

__all__ = ["DESK", "Desk"]

DESK: ContextVar[Desk | None] = ContextVar("stampede_guard_desk", default=None)
"""The desk of the call that the current code makes. Only the code of that call reads it, on the portal's loop."""


class _OfThread(threading.local):
    """The desks of one thread, the outermost first, and the computations that wait for it."""

    def __init__(self) -> None:
        self.desks: list[Desk] = []
        self.works: collections.deque[_Work] = collections.deque()


_here = _OfThread()


class Desk:
    """`run` belongs to the portal's loop, `next` and `leave` to the waiting thread, `close` to either.

    `outcome`: in a forked child, returns the result of this desk's computation, or raises its error.
    """

    def __init__(self) -> None:
        # True: look for a computation. Each desk is told of each one, because only one of them waits at a time.
        self._inbox: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._closed = False
        self._desks, self._works = _here.desks, _here.works
        self.outcome: Callable[[], Any] | None = None
        self.give_up_call: Callable[[], object] = lambda: None

    async def run(self, function: Callable[[], Any]) -> Any:
        """The result of `function()`, called in the waiting thread with a copy of this context.

        If this is cancelled before it began, it is dropped. Later it ends with the function, and not earlier: a thread
        cannot be stopped.
        """
        if self._closed:
            raise asyncio.CancelledError
        work = _Work(function, self)
        self._works.append(work)
        for desk in list(self._desks):
            desk._inbox.put(True)
        try:
            await asyncio.wait({work.ended})
        except asyncio.CancelledError:
            if not work.drop():
                await end_of(work.ended)
            raise
        return work.ended.result()

    def enter(self) -> None:
        """The thread begins to wait here."""
        self._desks.append(self)

    def next(self) -> _Work | None:
        """Wait for the next computation of this thread. None: the call is done."""
        while True:
            while self._works:
                work = self._works.popleft()
                if work.desk in self._desks:
                    return work
            if not self._inbox.get():
                return None

    def close(self) -> None:
        self._closed = True
        self._inbox.put(False)

    def leave(self) -> None:
        """The thread no longer waits here."""
        with contextlib.suppress(ValueError):
            self._desks.remove(self)


class _Work:
    """`ended` is cancelled if an interruption has ended the function: then no other caller gets an outcome."""

    def __init__(self, function: Callable[[], Any], desk: Desk) -> None:
        self.desk = desk
        # Either the thread takes the function out and calls it, or the loop takes it out and drops it.
        self._function = [function]
        self._context = contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self._process = os.getpid()
        self.ended: asyncio.Future[Any] = self._loop.create_future()

    def drop(self) -> bool:
        with contextlib.suppress(IndexError):
            self._function.pop()
            return True
        return False

    def carry_out(self) -> None:
        """Raises only what is for this thread, not for the caller of a function: Ctrl-C, `sys.exit()`.

        Then `give_up` must follow.
        """
        try:
            function = self._function.pop()
        except IndexError:
            return
        try:
            result = self._context.run(function)
        except Exception as error:
            if self._is_copy:
                self.desk.outcome = functools.partial(_raise, error)
            self._tell(self.ended.set_exception, bearable(error))
        else:
            if self._is_copy:
                self.desk.outcome = lambda: result
            self._tell(self.ended.set_result, result)

    def give_up(self) -> None:
        # Another caller may compute now: first the place of the call is given up, then its computation.
        self.desk.give_up_call()
        self._tell(self.ended.cancel)

    @property
    def _is_copy(self) -> bool:
        """Whether this is a forked child. The event loop is in the parent."""
        return os.getpid() != self._process

    def _tell(self, settle: Callable[..., Any], *outcome: Any) -> None:
        if self._is_copy:
            return
        with contextlib.suppress(RuntimeError):  # the event loop is closed
            self._loop.call_soon_threadsafe(settle, *outcome)


def _raise(error: Exception) -> Any:
    raise error
