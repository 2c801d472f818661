"""Plain functions run in threads of their own. A job of minutes must not occupy a thread that requests need."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from stampede_guard.jobs.reporting import log
from stampede_guard.jobs.run import Run, given

__all__ = ["in_thread", "result_of"]

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


async def in_thread(function: Callable[[], T], *, name: str, run: Run) -> T:
    """Run the function in a new thread. If cancelled, raise `run.stopping` and wait until the function ends.

    A thread cannot be cancelled. So the lease is kept while the function goes on, and no other run begins. The wait
    lasts at most `run.patience` seconds, because the function may never check `run.stopping`.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

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
        except SystemExit as ended:
            # In a thread, SystemExit ends the thread and not the program, as everywhere in Python.
            error = RuntimeError(f"{name} raised SystemExit: {ended.code}")
            error.__cause__ = ended
        except BaseException as raised:
            error = raised
        # The event loop may be closed by now. Then no task waits for the result.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name=f"stampede_guard {name}", daemon=True).start()
    try:
        await asyncio.wait({done})
    except asyncio.CancelledError:
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
        raise
    return done.result()


def _seen(done: asyncio.Future[T]) -> None:
    if not done.cancelled():
        done.exception()
