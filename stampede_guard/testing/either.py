"""One call for both kinds of tests: `async def` tests await it, and plain tests, without an event loop, call it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

__all__ = ["in_either_test"]

P = ParamSpec("P")
R = TypeVar("R")


def in_either_test(
    function: Callable[P, Coroutine[Any, Any, R]],
) -> Callable[P, R | Coroutine[Any, Any, R]]:
    """If an event loop runs, it returns the coroutine. Otherwise it runs the coroutine to its end."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R | Coroutine[Any, Any, R]:
        coroutine = function(*args, **kwargs)
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return asyncio.run(coroutine)
        return coroutine

    return call
