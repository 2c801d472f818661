"""The portal: one event loop of our own per process. Plain functions use the engine through it.

A caller without an event loop (a script, a Celery task, a thread of a framework's pool) gives its call to the portal
and waits. The portal serves it with the same code as a coroutine's call: flights, leases and the protocol exist once.

An error of a user's function goes only to the caller of that function. This includes errors that would end an event
loop, such as `SystemExit`. No lock is held where a signal handler could interrupt. A handler that calls a cached
function waits for the portal, so the portal must not wait for the interrupted thread.

The portal starts at its first use, in a daemon thread. After a fork the child starts its own. It ends with the process,
but later than functions that were registered with `atexit` after the import of this module. They may still use it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import functools
import logging
import threading
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Literal, ParamSpec, TypeVar, cast

from stampede_guard.engine.threads.desk import DESK, Desk
from stampede_guard.engine.threads.greenlets import (
    ended_copy,
    new_event_loop,
    refuse_eventlet,
    start_thread,
    this_greenlet,
)
from stampede_guard.engine.threads.locks import WAITING
from stampede_guard.engine.threads.threads import waiting
from stampede_guard.errors import Misuse, WaitTimeout
from stampede_guard.values.forks import in_children

__all__ = ["Portal", "at_end", "end_portal", "portal", "portal_loop", "refuse_eventlet"]

log = logging.getLogger("stampede_guard")

P = ParamSpec("P")
R = TypeVar("R")

LEAVE_SECONDS = 2.0
"""How long an interrupted caller waits until its place has been given up in order."""
STOP_SECONDS = 1.0
MOST_BEGUN = 1_000
"""Invalidations that began on the portal's own thread. Further ones are refused."""


class _Call:
    """`over` is held until there is an outcome. It is a bare lock, because a wait for it can be interrupted anytime."""

    def __init__(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self.over = threading.Lock()
        self.over.acquire()
        self.done = False
        self.result: Any = None
        self.error: BaseException | None = None
        self.when_done: Callable[[], object] = lambda: None
        self.thread = 0
        """The thread that waits. 0: an event loop."""
        self._function = function
        self._task: asyncio.Task[None] | None = None
        self._left = False

    def outcome(self) -> Any:
        """Call it when the call is done. Raises the error of the function."""
        try:
            if self.error is not None:
                raise self.error
            return self.result
        finally:
            # An error's traceback holds this frame. Without this, the frame would hold the error.
            del self

    def settle(self, result: Any = None, error: BaseException | None = None) -> None:
        if not self.done:
            self.result, self.error, self.done = result, error, True
            self.over.release()
            self.when_done()

    # These run on the portal's loop.

    def start(self) -> None:
        if self._left or self.done:
            self.settle(error=WaitTimeout("the call was cancelled before it began"))
            return
        # Runs in the caller's context, in which the call was handed over.
        self._task = asyncio.get_running_loop().create_task(self._carry_out(), name="stampede_guard call")
        self._task.add_done_callback(self._finish)

    async def _carry_out(self) -> None:
        """Raises only its own cancellation: one caller's error must not end the loop of all callers."""
        try:
            self.settle(await self._function())
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            self.settle(error=error)
        except BaseException as error:
            self.settle(error=error)

    def leave(self) -> None:
        if self._left:
            return  # a second cancellation would cut its cleanup short
        self._left = True
        if self._task is not None:
            # Cancel only after the task's first step. A task cancelled before it would never run its cleanup.
            asyncio.get_running_loop().call_soon(self._task.cancel)

    def _finish(self, task: asyncio.Task[None]) -> None:
        self.settle(error=WaitTimeout("the call was cancelled: this process is ending"))


class Portal:
    """`loop` runs in a thread of its own until the process ends."""

    def __init__(self) -> None:
        self.loop = new_event_loop()
        self.ended = False
        """Whether its thread is gone because of a fault in the loop itself."""
        self._stopped = False
        self._unused = False
        self._calls: set[_Call] = set()
        self._begun: set[asyncio.Task[Any]] = set()
        self._ident = 0
        self._greenlet: Any = None
        self._copied = False
        self._thread = start_thread(self._serve, name="stampede_guard portal")

    def _serve(self) -> None:
        self._ident, self._greenlet = threading.get_ident(), this_greenlet()
        try:
            while not self._stopped:
                try:
                    self.loop.run_forever()
                except (SystemExit, KeyboardInterrupt):
                    # Raised in a callback without a waiting caller. The loop must still do its other work.
                    log.exception("the event loop of plain functions goes on after a function raised an exit")
        except BaseException:
            if not self._copied:
                log.exception("the event loop of plain functions has ended")
        finally:
            self.ended = True
            for call in list(self._calls):
                call.settle(error=WaitTimeout("the event loop that serves plain functions has ended"))
            if self._unused:
                self.loop.close()

    def call(self, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """The result or error of the coroutine function, run on the portal's loop in a copy of the caller's context.

        The caller's thread waits. An interruption of the wait (Ctrl-C, a soft time limit) takes the call back and is
        raised. Raises `Misuse` on the portal's own thread, which would wait for itself.
        """
        call = self._begin(lambda: function(*args, **kwargs))
        try:
            self._hand_over(call)
            with _standing_still(), waiting():
                call.over.acquire()
            result: R = call.outcome()
            return result
        except BaseException:
            if not call.done:
                self._take_back(call)
            raise
        finally:
            self._calls.discard(call)
            # An error's traceback holds this frame. Without this, the frame would hold the error.
            del call

    def invalidate(
        self, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs
    ) -> R | Literal["pending"]:
        """The same for an invalidation. On the portal's own thread it only begins: "pending".

        The collector may run there, and call a `__del__` that invalidates. Nobody could call it again.
        """
        if threading.get_ident() != self._ident or len(self._begun) >= MOST_BEGUN:
            return self.call(function, *args, **kwargs)
        task = self.loop.create_task(function(*args, **kwargs), name="stampede_guard invalidation")
        self._begun.add(task)
        task.add_done_callback(self._note_invalidated)
        return "pending"

    def _note_invalidated(self, task: asyncio.Task[Any]) -> None:
        self._begun.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an invalidation on the event loop of plain functions failed", exc_info=error)

    def call_here(
        self, function: Callable[[], Coroutine[Any, Any, R]], *, in_child: Callable[[Any], R] | None = None
    ) -> R:
        """The same, but computations that belong to this call run in this thread while it waits: see `desk`.

        `in_child`: if the computation forks and returns in the child as well, makes the call's result there of its own.
        None: they are the same.
        """
        call, desk = self._begin(function), Desk()
        call.when_done, desk.give_up_call = desk.close, functools.partial(self._leave, call)
        try:
            desk.enter()
            with _at(desk):
                self._hand_over(call)
            while (work := _next(desk)) is not None:
                try:
                    work.carry_out()
                except BaseException:
                    self._leave(call)
                    work.give_up()
                    raise
                if desk.outcome is not None:
                    break
            if desk.outcome is not None:
                return in_child(desk.outcome()) if in_child is not None else cast("R", desk.outcome())
            result: R = call.outcome()
            return result
        except BaseException:
            if not call.done:
                self._take_back(call)
            raise
        finally:
            desk.leave()
            self._calls.discard(call)
            del call, desk

    def _begin(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> _Call:
        if threading.get_ident() == self._ident:
            raise Misuse(
                "a cached plain function was called on stampede_guard's own event loop, for example from a function "
                "given as key=: it would wait for itself. Call the undecorated function (`.__wrapped__`) there."
            )
        call = _Call(function)
        call.thread = threading.get_ident()
        return call

    def _hand_over(self, call: _Call) -> None:
        self._calls.add(call)
        # Check after adding the call. A loop that ends now finds the call, or this thread sees that the loop has ended.
        if self._stopped or self.ended:
            call.settle()
            raise Misuse("this process is ending: its event loop for plain functions accepts no calls")
        self.loop.call_soon_threadsafe(call.start, context=contextvars.copy_context())

    def _leave(self, call: _Call) -> None:
        if self._copied:
            return
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(call.leave)

    def _take_back(self, call: _Call) -> None:
        self._leave(call)
        with _standing_still():
            call.over.acquire(timeout=LEAVE_SECONDS)

    async def elsewhere(self, function: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """The same for a caller on another event loop, without blocking that loop."""
        call, loop = _Call(function), asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()

        def tell() -> None:
            with contextlib.suppress(RuntimeError):  # the event loop is closed
                loop.call_soon_threadsafe(_set, over)

        call.when_done = tell
        try:
            self._hand_over(call)
            await over
        finally:
            self._calls.discard(call)
        result: R = call.outcome()
        return result

    def forget(self) -> None:
        """After a fork, in the child. The loop is kept: closing the copy would disturb the parent's loop.

        The thread that forked may be inside calls: a computation has forked, or a signal handler. They have no loop.
        """
        _of_the_parents.append(self)
        self._copied = True
        for call in list(self._calls):
            if call.thread == threading.get_ident():
                call.settle(
                    error=WaitTimeout(
                        "this process was forked during the call, which its parent goes on with"
                    )
                )
        ended_copy(self._greenlet)

    def stop(self) -> None:
        """Called before the interpreter ends: a running thread would use objects that no longer exist."""
        for close in _closers:
            with contextlib.suppress(Exception):
                close()
        self.leave()
        if self._thread is not None:
            self._thread.join(STOP_SECONDS)

    def discard(self) -> None:
        """End and close the loop of an unused portal: its sockets might be collected first, with an error."""
        self._unused = True
        self.leave()

    def leave(self) -> None:
        """End the loop. Later calls are refused, because they would wait for ever."""
        self._stopped = True
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)


@contextlib.contextmanager
def _standing_still() -> Iterator[None]:
    """This thread only waits for the portal, so the code that it interrupted waits as well. See `locks`."""
    me = threading.get_ident()
    WAITING[me] = WAITING.get(me, 0) + 1
    try:
        yield
    finally:
        # A forked child has forgotten them.
        if (left := WAITING.get(me, 1) - 1) > 0:
            WAITING[me] = left
        else:
            WAITING.pop(me, None)


@contextlib.contextmanager
def _at(desk: Desk) -> Iterator[None]:
    token = DESK.set(desk)
    try:
        yield
    finally:
        DESK.reset(token)


def _next(desk: Desk) -> Any:
    with _standing_still(), waiting():
        return desk.next()


_made: dict[str, Portal] = {}
"""The portal of this process, if there is one. `setdefault` puts it there in one step, so no lock is needed."""
_of_the_parents: list[Portal] = []
_closers: list[Callable[[], None]] = []


def at_end(close: Callable[[], None]) -> None:
    """Register a function to call when the process ends, while the portal still runs."""
    _closers.append(close)


def portal() -> Portal:
    """The portal of this process. Starts it at the first call."""
    found = _made.get("portal")
    if found is not None and found.ended and not found._stopped:
        _made.pop("portal", None)
        found = None
    if found is None:
        mine = Portal()
        found = _made.setdefault("portal", mine)
        if found is not mine:
            mine.discard()
    return found


def portal_loop() -> asyncio.AbstractEventLoop | None:
    """The portal's event loop. None if it was never needed."""
    found = _made.get("portal")
    return found.loop if found is not None else None


@in_children
def _after_fork() -> None:
    found = _made.pop("portal", None)
    if found is not None:
        found.forget()


@atexit.register
def end_portal() -> None:
    """Close what uses the portal, and end it. For a child process that ends with `os._exit`, call it before that."""
    found = _made.get("portal")
    if found is not None:
        found.stop()


def _set(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
