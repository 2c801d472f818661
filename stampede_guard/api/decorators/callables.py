"""Turns the object under a decorator into a coroutine function, or a plain one, with a name and parameters.

We ask the outer callable whether it returns a coroutine, not the function that it wraps. For example, `asyncify(load)`
and `sync_to_async(load)` are asynchronous around a plain function, and `async_to_sync(load)` is the other way round.
"""

from __future__ import annotations

import asyncio.coroutines
import functools
import inspect
from collections.abc import Callable
from typing import Any, cast

from stampede_guard.api.decorators.brought import is_marked, mark_brought
from stampede_guard.errors import Misuse
from stampede_guard.values.arguments.signatures import refuse_other_defaults, signature_of
from stampede_guard.values.keys.naming import innermost

__all__ = ["as_function", "is_coroutine_function"]

_MARK: Any = getattr(asyncio.coroutines, "_is_coroutine", None)
"""How Cython, asgiref and mocks mark a coroutine function before Python 3.12."""


def is_coroutine_function(function: Any) -> bool:
    """Whether a call returns a coroutine, as far as marks show it. For a plain wrapper, look at its function."""
    while isinstance(function, functools.partial):
        function = function.func
    if _says_so(function):
        return True
    if inspect.isroutine(function):
        # `def wrapper(*args): return function(*args)` passes the coroutine on.
        inner = getattr(function, "__wrapped__", None)
        # For a wrapper made by `as_function`, its own kind counts.
        return callable(inner) and not is_marked(function) and is_coroutine_function(inner)
    return callable(function) and _says_so(type(function).__call__)


def _says_so(function: Any) -> bool:
    if inspect.iscoroutinefunction(function):
        return True
    return _MARK is not None and getattr(function, "_is_coroutine", None) is _MARK


def as_function(given: Any) -> Callable[..., Any]:
    """A function with a name and parameters that calls `given`. If `given` has both, it is returned as it is.

    Raises `Misuse` for a class or a generator, which return no result, and if the parameters are not visible.
    """
    _refuse_what_is_none(given)
    signature = _signature(given)
    refuse_other_defaults(given)
    if _is_function(given) and (_says_so(given) or not is_coroutine_function(given)):
        return cast("Callable[..., Any]", given)
    whole: Any = _awaited(given) if is_coroutine_function(given) else _called(given)
    inner = innermost(given)
    named = inner if _is_function(inner) else type(inner).__call__
    functools.update_wrapper(whole, named)  # so that its annotations are found, too
    whole.__signature__ = signature
    mark_brought(whole, given)
    return cast("Callable[..., Any]", whole)


def _awaited(given: Any) -> Callable[..., Any]:
    async def call(*args: Any, **kwargs: Any) -> Any:
        result = given(*args, **kwargs)
        if not inspect.isawaitable(result):
            raise Misuse(
                f"{_title(given)} wraps a coroutine function, and returned a {type(result).__name__} that cannot be "
                "awaited: it ran in the event loop and blocked it. Decorate the coroutine function itself; or "
                "remove functools.wraps, so that the wrapper counts as a plain function"
            )
        return await result

    return call


def _called(given: Any) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return given(*args, **kwargs)

    return call


def _signature(given: Any) -> inspect.Signature:
    try:
        return signature_of(given)
    except (TypeError, ValueError) as error:
        raise Misuse(
            f"the parameters of {_title(given)} are not visible ({error}), and the key is made of them: decorate a "
            "function with parameters that calls it"
        ) from None


def _is_function(given: Any) -> bool:
    """Not a mock that only looks like one, and has no names."""
    return inspect.isroutine(given) and isinstance(getattr(given, "__qualname__", None), str)


def _refuse_what_is_none(given: Any) -> None:
    """Refuse a class or a generator. A coroutine function may wrap a generator: only its own result counts."""
    fine = callable(given) and not isinstance(given, type)
    if fine and not is_coroutine_function(given):
        called = innermost(given)
        called = called if inspect.isroutine(called) else type(called).__call__
        fine = not (inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called))
    if not fine:
        raise Misuse(
            f"@locked_cache takes a function, async def or def, that returns its result; {_title(given)!r} is not one"
        )
    if isinstance(given, functools._lru_cache_wrapper) and is_coroutine_function(given):
        raise Misuse(
            f"{_title(given)} is a coroutine function under functools.lru_cache, which keeps coroutines, and each can "
            "be awaited only once: remove lru_cache"
        )


def _title(given: Any) -> str:
    name = getattr(innermost(given), "__qualname__", None)
    return name if isinstance(name, str) and name else type(given).__qualname__
