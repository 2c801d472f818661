"""One call for both kinds of tests: `async def` tests await it, and plain tests, without an event loop, call it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar, cast

from stampede_guard.testing.crowd import without_kit

__all__ = ["in_either_test"]

P = ParamSpec("P")
R = TypeVar("R")


async def _outcome(coroutine: Coroutine[Any, Any, R]) -> tuple[R | None, Exception | None]:
    try:
        return await coroutine, None
    except Exception as error:
        return None, error


def _loop_runs() -> bool:
    # Not in the caller's `except`: a failure of the test would show this error, too.
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def in_either_test(
    function: Callable[P, Coroutine[Any, Any, R]],
) -> Callable[P, R | Coroutine[Any, Any, R]]:
    """If an event loop runs, it returns the coroutine. Otherwise it runs the coroutine to its end."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R | Coroutine[Any, Any, R]:
        __tracebackhide__ = True
        coroutine = function(*args, **kwargs)
        if _loop_runs():
            return coroutine
        # A failure shows the test's own line, not the event loop's.
        result, error = asyncio.run(_outcome(coroutine))
        if error is not None:
            raise without_kit(error)
        return cast("R", result)

    return call
