"""Decorated functions of an extension. Each application has a guard of its own, so it has a face of each function.

A function may be decorated before there is an application. So the face is made at the first call in an application. A
guard that stores nothing checks the options at once: a mistake is then an error at import.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
from collections.abc import Callable
from typing import Any

import flask.typing

from stampede_guard.api.decorators.callables import is_coroutine_function
from stampede_guard.api.decorators.methods import in_its_place, taken_from
from stampede_guard.api.guard import StampedeGuard
from stampede_guard.errors import UnsupportedValue
from stampede_guard.values.annotations import resolve

__all__ = ["AppState", "Faces", "cached_helper", "named_like"]


class AppState:
    """What `app.extensions["stampede_guard"]` is. `guard`: of this application."""

    def __init__(self, guard: StampedeGuard) -> None:
        self.guard = guard
        self.faces: dict[Faces, Any] = {}
        self.watch: Any = None
        """Called with the first request: see `extension`. Signals refer to it weakly."""


class Faces:
    """The faces of one decorated function. Raises what the guard's decorator raises, when it is made."""

    def __init__(self, function: Any, options: dict[str, Any], state: Callable[[], AppState]) -> None:
        _refuse_responses(function)
        self._function = function
        self._options = options
        self._state = state
        self._made_by(StampedeGuard.from_url("memory://"))

    def _made_by(self, guard: StampedeGuard) -> Any:
        return guard.locked_cache(**self._options)(self._function)

    def here(self) -> Any:
        """The face in the application of the caller."""
        state = self._state()
        found = state.faces.get(self)
        # Two threads may both make one, which serve alike.
        return state.faces.setdefault(self, self._made_by(state.guard)) if found is None else found


def cached_helper(given: Any, options: dict[str, Any], state: Callable[[], AppState]) -> Any:
    function = taken_from(given)
    if is_coroutine_function(function):
        wrapper = _awaited(function, Faces(_run_to_its_end(function), options, state))
    else:
        wrapper = _called(function, Faces(function, options, state))
    return in_its_place(given, wrapper)


def _refuse_responses(function: Any) -> None:
    """Flask's own annotations of a view. They name things that Flask imports for type checkers only."""
    written = getattr(function, "__annotations__", {}).get("return")
    if isinstance(written, str):
        with contextlib.suppress(Exception):  # evaluation runs code that can raise anything
            written = eval(written, getattr(function, "__globals__", {}))
    if any(written == one for one in (flask.typing.ResponseReturnValue, flask.typing.ResponseValue)):
        raise UnsupportedValue(
            f"{function.__qualname__}() is annotated as a view, so it may return a flask Response, which cannot be "
            "stored and given to other callers; annotate it with the data that it returns, or cache whole responses "
            "with @stampede.cached_view"
        )


def _called(function: Any, faces: Faces) -> Any:
    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return faces.here()(*args, **kwargs)

    def invalidate(*args: Any, **kwargs: Any) -> Any:
        return faces.here().invalidate(*args, **kwargs)

    def refresh(*args: Any, **kwargs: Any) -> Any:
        return faces.here().refresh(*args, **kwargs)

    return _with_others(call, faces, invalidate, refresh)


def _awaited(function: Any, faces: Faces) -> Any:
    """In Flask, each request of an `async def` view has an event loop of its own, which ends with the request. So the
    coroutine runs on a loop of its computation, and its callers wait in threads.
    """

    @functools.wraps(function)
    async def call(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(faces.here(), *args, **kwargs)

    async def invalidate(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(faces.here().invalidate, *args, **kwargs)

    async def refresh(*args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(faces.here().refresh, *args, **kwargs)

    return _with_others(call, faces, invalidate, refresh)


def _run_to_its_end(function: Any) -> Any:
    def compute(*args: Any, **kwargs: Any) -> Any:
        return asyncio.run(function(*args, **kwargs))

    return named_like(function, compute, inspect.signature(function), resolve(function))


def named_like(function: Any, made: Any, signature: inspect.Signature, hints: dict[str, Any]) -> Any:
    """`made` with the names of a function, and without `__wrapped__`: it is another kind of function."""
    made.__module__, made.__name__, made.__qualname__ = (
        function.__module__, function.__name__, function.__qualname__,
    )  # fmt: skip
    made.__doc__, made.__signature__, made.__annotations__ = function.__doc__, signature, hints
    return made


def _with_others(call: Any, faces: Faces, invalidate: Any, refresh: Any) -> Any:
    def key(*args: Any, **kwargs: Any) -> Any:
        return faces.here().key(*args, **kwargs)

    def explain(*args: Any, **kwargs: Any) -> Any:
        return faces.here().explain(*args, **kwargs)

    def set_mode(mode: Any) -> None:
        faces.here().set_mode(mode)

    call.invalidate, call.refresh, call.key, call.explain, call.set_mode = (
        invalidate, refresh, key, explain, set_mode,
    )  # fmt: skip
    return call
