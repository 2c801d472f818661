"""Plain functions run in threads of their own: a job of minutes must not take one that requests need."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Callable
from typing import TypeVar

__all__ = ["in_thread"]

T = TypeVar("T")


async def in_thread(function: Callable[[], T], *, name: str) -> T:
    """A thread cannot be cancelled: cancelled, this stops waiting, and the function sees `run.stopping`."""
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
            # A future cannot carry it.
            error = RuntimeError(f"{name} raised StopIteration")
            error.__cause__ = stop
        except SystemExit as ended:
            # It ends a thread, as everywhere, and not the program.
            error = RuntimeError(f"{name} raised SystemExit: {ended.code}")
            error.__cause__ = ended
        except BaseException as raised:
            error = raised
        # The loop may have been closed meanwhile; then nobody waits any more.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=work, name=f"stampede_guard {name}", daemon=True).start()
    return await done
