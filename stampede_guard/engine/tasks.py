"""Task cleanup: the results and errors of tasks that work for a caller, and waiting for their end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

from stampede_guard.errors import Misuse

__all__ = [
    "AT_ITS_PACE", "CLOSE_PLAIN", "Stopped", "at_most", "contained", "done_within", "ended", "error_of", "outcome_of",
    "retrieve", "running_loop", "together",
]  # fmt: skip

T = TypeVar("T")
CLOSE_PLAIN = "close the part of plain functions with guard.close()"
"""What to do `instead` of `await guard.aclose()`."""
AT_ITS_PACE: Final[contextlib.AbstractAsyncContextManager[None]] = contextlib.nullcontext()
"""A block that nothing limits. One object serves all, because it holds nothing."""


def at_most(seconds: float | None) -> contextlib.AbstractAsyncContextManager[object]:
    """`asyncio.timeout(seconds)`, without its price where there is no limit (None)."""
    return AT_ITS_PACE if seconds is None else asyncio.timeout(seconds)


def running_loop(instead: str = "call a plain `def` function in a thread") -> asyncio.AbstractEventLoop:
    """The running event loop of asyncio. Raises `Misuse` where there is none, as under trio: it says what to do
    `instead`.
    """
    loop = asyncio._get_running_loop()
    if loop is None:
        raise Misuse(
            "there is no event loop of asyncio here, and stampede_guard works on no other, such as trio's: with anyio "
            f"choose the back end asyncio, or {instead}"
        )
    return loop


async def together(calls: Iterable[Awaitable[T]]) -> list[T]:
    """`asyncio.gather(*calls)`. Raises `Misuse` where no event loop of asyncio runs: trio's says nothing useful."""
    running_loop()
    return await asyncio.gather(*calls)


class Stopped:
    """The result of a run that `sys.exit()` or Ctrl-C ended."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def contained(run: Callable[[], Awaitable[Any]]) -> Any:
    """Return what `run()` returns. If it raises SystemExit or KeyboardInterrupt, return `Stopped`.

    A task that raises SystemExit ends its event loop, with all other tasks on it. Instead, its caller raises the error.
    """
    try:
        return await run()
    except (SystemExit, KeyboardInterrupt) as error:
        return Stopped(error)


def outcome_of(task: asyncio.Task[Any]) -> Any:
    """The result of a task that ran `contained`. Raises the error of the run."""
    result = task.result()
    if isinstance(result, Stopped):
        raise result.error
    return result


def error_of(task: asyncio.Task[Any]) -> BaseException | None:
    """The error of a task that has ended, also one that `contained` caught. The task must not be cancelled."""
    error = task.exception()
    if error is not None:
        return error
    result = task.result()
    return result.error if isinstance(result, Stopped) else None


async def done_within(seconds: float | None, *tasks: asyncio.Future[Any]) -> bool:
    """Whether one of the tasks ends in this time (None: however long it takes).

    `asyncio.wait` does the same. Each miss waits in this way several times, and that would be its greatest expense.
    """
    for task in tasks:
        if task.done():
            return True
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def wake(_: object = None) -> None:
        if not over.done():
            over.set_result(None)

    for task in tasks:
        task.add_done_callback(wake)
    timer = None if seconds is None else loop.call_later(seconds, wake)
    try:
        await over
    finally:
        if timer is not None:
            timer.cancel()
        for task in tasks:
            task.remove_done_callback(wake)
    return any(task.done() for task in tasks)


async def ended(task: asyncio.Task[Any], seconds: float | None = None) -> None:
    """Wait until the task has ended, at most `seconds` (None: as long as it takes), even if the waiter is cancelled.

    A cancellation of the waiter is raised after the wait. If it were raised at once, the caller would close resources
    that the task still uses. It may also come many times: some code cancels in every turn of the event loop.
    """
    loop = asyncio.get_running_loop()
    until = None if seconds is None else loop.time() + seconds
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        left = None if until is None else until - loop.time()
        if left is not None and left <= 0:
            break
        try:
            await asyncio.wait({task}, timeout=left)
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled


def retrieve(task: asyncio.Future[Any]) -> None:
    """A done callback for tasks whose caller may have left. It keeps asyncio from reporting an unretrieved error."""
    if not task.cancelled():
        task.exception()
