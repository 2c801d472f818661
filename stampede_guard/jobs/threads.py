"""Plain functions run in threads of their own. A job of minutes must not occupy a thread that requests need.

A plain caller that waits for its run has a thread already: `CallersThread` runs the function there.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from stampede_guard.engine.threads.portal import portal
from stampede_guard.errors import WaitTimeout
from stampede_guard.jobs.reporting import log
from stampede_guard.jobs.run import Run, given
from stampede_guard.values.forks import abandon_in_children

__all__ = ["CallersThread", "in_thread", "result_of"]

T = TypeVar("T")


async def result_of(
    function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any], *, name: str, run: Run
) -> Any:
    """The result of the function. A coroutine function runs in the event loop, a plain one in a thread.

    If a plain function returns an awaitable, it is awaited in the event loop.
    """
    with given(run):
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
            return await function(*args, **kwargs)
        result = await in_thread(lambda: function(*args, **kwargs), name=name, run=run)
        return await result if inspect.isawaitable(result) else result


def _in_new_thread(work: Callable[[], None], name: str) -> Callable[[], bool]:
    threading.Thread(target=work, name=f"stampede_guard {name}", daemon=True).start()
    return lambda: False


async def in_thread(
    function: Callable[[], T],
    *,
    name: str,
    run: Run,
    begin: Callable[[Callable[[], None], str], Callable[[], bool]] = _in_new_thread,
) -> T:
    """Run the function in a new thread. If cancelled, raise `run.stopping` and wait until the function ends.

    A thread cannot be cancelled. So the lease is kept while the function goes on, and no other run begins. The wait
    lasts at most `run.patience` seconds, because the function may never check `run.stopping`. `begin`: gives the work
    to a thread, and returns a function that takes it back if the thread has not begun it.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context, here = contextvars.copy_context(), os.getpid()

    def settle(result: T | None, error: BaseException | None) -> None:
        if done.done():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def work() -> None:
        result: T | None = None
        error: BaseException | None = None
        try:
            result = context.run(function)
        except StopIteration as stop:
            # A future refuses a StopIteration.
            error = RuntimeError(f"{name} raised StopIteration")
            error.__cause__ = stop
        except GeneratorExit as closed:
            # In the task of the run, it would mean that the event loop is gone.
            error = RuntimeError(f"{name} raised GeneratorExit")
            error.__cause__ = closed
        except SystemExit as ended:
            # In a thread, SystemExit ends the thread and not the program, as everywhere in Python.
            error = RuntimeError(f"{name} raised SystemExit: {ended.code}")
            error.__cause__ = ended
        except BaseException as raised:
            error = raised
        if os.getpid() != here:
            return  # the function has forked: the event loop is in the parent
        # The event loop may be closed by now. Then no task waits for the result.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    take_back = begin(work, name)
    try:
        await asyncio.wait({done})
    except asyncio.CancelledError:
        if not take_back():
            await _stopped(done, name, run)
        raise
    return done.result()


async def _stopped(done: asyncio.Future[T], name: str, run: Run) -> None:
    done.add_done_callback(_seen)
    run.stop("it was cancelled")
    try:
        await asyncio.wait({done}, timeout=run.patience)
    finally:
        # Also after a second cancellation.
        if not done.done():
            run.goes_on = True
            log.error(
                "job %s goes on in its thread after it was asked to stop: no lease protects it now", name
            )


class CallersThread:
    """The thread of a plain caller, which waits for a run, and calls the function of the run itself.

    So the function sees what belongs to its caller's thread. An interruption of the caller (a soft time limit, Ctrl-C)
    is raised in the function while it runs.

    The function may fork, and return in the child as well. The run and its lease belong to the parent.
    """

    def __init__(self) -> None:
        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._task: asyncio.Task[Any] | None = None
        abandon_in_children(self)

    def wait(
        self, start: Callable[[], Coroutine[Any, Any, T]], *, in_child: Callable[[], T] | None = None
    ) -> T:
        """The result of the coroutine, which runs on the event loop of plain functions. Call it without an event loop.

        An interruption of the wait cancels the coroutine, and is raised. Raises `Misuse` while the process ends.
        `in_child`: makes the result in a child that the function has forked. A child that was forked otherwise, or
        without it, gets a `WaitTimeout`.
        """
        loop, here = portal().loop, os.getpid()
        portal().call(_nothing)

        def begin() -> None:
            self._task = loop.create_task(start(), name="stampede_guard call")
            self._task.add_done_callback(lambda _: self._work.put(None))
            self._task.add_done_callback(_seen)

        try:
            loop.call_soon_threadsafe(begin)
            while (work := self._work.get()) is not None:
                work()
                if os.getpid() != here and in_child is not None:
                    return in_child()
            if os.getpid() != here:
                raise WaitTimeout("this process was forked during a run, which its parent goes on with")
            assert self._task is not None
            if self._task.cancelled():
                raise RuntimeError("the run was cancelled: this process is ending")
            result: T = self._task.result()
            return result
        finally:
            # After `begin`, in any case: the loop calls in order.
            if os.getpid() == here:
                loop.call_soon_threadsafe(self._leave)

    def abandon(self) -> None:
        """In a forked child: the wait ends, because the event loop is in the parent."""
        self._work.put(None)

    def _leave(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()

    async def run(self, function: Callable[[], T], *, name: str, run: Run) -> T:
        """In the coroutine: as `in_thread`, but in the thread that waits."""
        return await in_thread(function, name=name, run=run, begin=self._hand_over)

    def _hand_over(self, work: Callable[[], None], _name: str) -> Callable[[], bool]:
        # The thread takes the one turn to do the work; the coroutine takes it when the caller has left. It is no lock:
        # one that is held during a fork would stay held in the child.
        turns = deque([True])

        def take() -> bool:
            try:
                return turns.pop()  # atomic
            except IndexError:
                return False

        def begin() -> None:
            if take():
                work()

        self._work.put(begin)
        return take


async def _nothing() -> None: ...


def _seen(done: asyncio.Future[T]) -> None:
    if not done.cancelled():
        done.exception()
