"""The portal: one event loop of our own per process, through which plain functions reach the engine.

A caller without an event loop (a script, a Celery task, a thread of a framework's pool) hands its call to the portal
and waits. There it is served by the same code as a coroutine's call: flights, leases and the protocol exist once.

The portal starts at its first use, in a daemon thread. After a fork the child starts one of its own. It ends with the
process, but after what was registered with `atexit` since this module was imported, which may still use it.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import contextvars
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, ParamSpec, TypeVar

from stampede_guard.errors import Misuse, WaitTimeout
from stampede_guard.threads import waiting

__all__ = ["Portal", "at_end", "portal", "portal_loop"]

P = ParamSpec("P")
R = TypeVar("R")

LEAVE_SECONDS = 2.0
"""How long an interrupted caller waits for its place to be given up in order."""
STOP_SECONDS = 1.0


class _Call:
    def __init__(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        self.outcome: Future[Any] = Future()
        self._function = function
        self._task: asyncio.Task[Any] | None = None
        self._left = False

    # Both run on the portal's loop.

    def start(self) -> None:
        if self._left:
            self.outcome.cancel()
        # From here on it cannot be cancelled: a coroutine that no longer waits for it does not end it.
        if not self.outcome.set_running_or_notify_cancel():
            return
        # In the context that it was handed over with, the caller's.
        self._task = asyncio.get_running_loop().create_task(self._function(), name="stampede_guard call")
        self._task.add_done_callback(self._finish)

    def leave(self) -> None:
        self._left = True
        if self._task is not None:
            # Not before its first step, or what it was to give back would be kept: begun, it is carried on by others.
            asyncio.get_running_loop().call_soon(self._task.cancel)

    def _finish(self, task: asyncio.Task[Any]) -> None:
        if task.cancelled():
            self.outcome.set_exception(WaitTimeout("the call was cancelled: this process is ending"))
            return
        error = task.exception()
        if error is not None:
            self.outcome.set_exception(error)
        else:
            self.outcome.set_result(task.result())


class Portal:
    """`loop` runs in a thread of its own until the process ends."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._stopped = False
        self._thread = threading.Thread(target=self._serve, name="stampede_guard portal", daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        self.loop.run_forever()

    def call(self, function: Callable[P, Coroutine[Any, Any, R]], *args: P.args, **kwargs: P.kwargs) -> R:
        """What the coroutine function returns or raises, run on the portal's loop in a copy of the caller's context.

        The caller's thread waits. What interrupts it there (Ctrl-C, a soft time limit) takes the call back and is
        raised. Raises `Misuse` on the portal's own thread, which would wait for itself.
        """
        if threading.get_ident() == self._thread.ident:
            raise Misuse(
                "a cached plain function was called on stampede_guard's own event loop, for example from a function "
                "given as key=: it would wait for itself. Call the undecorated function (`.__wrapped__`) there."
            )
        if self._stopped:
            raise Misuse("this process is ending, and with it the event loop that serves plain functions")
        call = _Call(lambda: function(*args, **kwargs))
        try:
            self.loop.call_soon_threadsafe(call.start, context=contextvars.copy_context())
            with waiting():
                result: R = call.outcome.result()
                return result
        except BaseException:
            if not call.outcome.done():
                self._take_back(call)
            raise
        finally:
            # An error's traceback holds this frame, which would hold the error.
            del call

    def _take_back(self, call: _Call) -> None:
        self.loop.call_soon_threadsafe(call.leave)
        with contextlib.suppress(Exception):
            call.outcome.exception(timeout=LEAVE_SECONDS)

    async def elsewhere(self, function: Callable[[], Coroutine[Any, Any, R]]) -> R:
        """The same for a caller on another event loop, which does not block."""
        call = _Call(function)
        self.loop.call_soon_threadsafe(call.start, context=contextvars.copy_context())
        result: R = await asyncio.wrap_future(call.outcome)
        return result

    def forget(self) -> None:
        """After a fork, in the child. The loop is kept: to close a copied one would disturb that of the parent."""
        _of_the_parents.append(self)

    def stop(self) -> None:
        """Before the interpreter goes: a thread that still ran would run into what is no longer there."""
        for close in _closers:
            with contextlib.suppress(Exception):
                close()
        # Who comes later would wait for ever.
        self._stopped = True
        with contextlib.suppress(RuntimeError):
            self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(STOP_SECONDS)


_portal: Portal | None = None
_lock = threading.Lock()
_of_the_parents: list[Portal] = []
_closers: list[Callable[[], None]] = []


def at_end(close: Callable[[], None]) -> None:
    """Have this called when the process ends, while the portal still runs."""
    _closers.append(close)


def portal() -> Portal:
    """The one of this process."""
    global _portal
    found = _portal
    if found is None:
        with _lock:
            found = _portal
            if found is None:
                found = _portal = Portal()
    return found


def portal_loop() -> asyncio.AbstractEventLoop | None:
    """Its event loop; None if it was never needed."""
    return _portal.loop if _portal is not None else None


def _after_fork() -> None:
    global _portal, _lock
    # Another thread of the parent may have held it.
    _lock = threading.Lock()
    if _portal is not None:
        _portal.forget()
        _portal = None


def _at_exit() -> None:
    if _portal is not None:
        _portal.stop()


atexit.register(_at_exit)

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
