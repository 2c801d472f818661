"""The ends of tasks that work for a caller: waited for by who must, and of no concern when the caller has gone."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ["Stopped", "contained", "ended", "error_of", "outcome_of", "retrieve"]


class Stopped:
    """Stands for the result of what was ended by `sys.exit()` or Ctrl-C."""

    def __init__(self, error: BaseException) -> None:
        self.error = error


async def contained(run: Callable[[], Awaitable[Any]]) -> Any:
    """What `run()` returns; `Stopped` if it would end the process.

    A task that raises SystemExit ends its event loop, with all others on it. Here it is for its caller to raise.
    """
    try:
        return await run()
    except (SystemExit, KeyboardInterrupt) as error:
        return Stopped(error)


def outcome_of(task: asyncio.Task[Any]) -> Any:
    """What a task that was `contained` returned. Raises what it raised."""
    result = task.result()
    if isinstance(result, Stopped):
        raise result.error
    return result


def error_of(task: asyncio.Task[Any]) -> BaseException | None:
    """What a task raised, if it was not cancelled, or was `contained` for."""
    error = task.exception()
    if error is not None:
        return error
    result = task.result()
    return result.error if isinstance(result, Stopped) else None


async def ended(task: asyncio.Task[Any], seconds: float | None = None) -> None:
    """Wait until the task has ended, at most `seconds` (None: as long as it takes), however often it is cancelled.

    A cancellation of the waiting is raised at the end of it. Not at once, because the caller would go on to close what
    the task still uses; and some cancel in every turn of the event loop until they are heeded.
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
    """A done callback, for tasks whose error may be nobody's any more: it is not reported as forgotten."""
    if not task.cancelled():
        task.exception()
