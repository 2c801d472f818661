"""Counts computations: the calls of the function behind the cache."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from stampede_guard.api.decorators.decorator import Face
from stampede_guard.errors import Misuse
from stampede_guard.values.forks import renew_in_children

__all__ = ["counted", "face_of", "name_of"]

Count = Callable[[], int]

_lock = threading.Lock()
renew_in_children(sys.modules[__name__], "_lock")
_watched: dict[Face[Any, Any], _Watched] = {}


def face_of(function: Any) -> Face[Any, Any] | None:
    """The decorated function in this object, which may be bound or wrapped by another decorator."""
    while isinstance(function, functools.partial) and not hasattr(function, "set_mode"):
        function = function.func
    # A bound method of the face. Other decorators copy it, and methods pass it on.
    face = getattr(getattr(function, "set_mode", None), "__self__", None)
    return face if isinstance(face, Face) else None


def name_of(what: Any) -> str:
    """For messages."""
    face = face_of(what)
    if face is not None:
        return face._plan.title
    if isinstance(what, list | tuple):
        return " and ".join(map(name_of, what)) or "nothing"
    return str(getattr(what, "__qualname__", None) or type(what).__name__)


@contextlib.contextmanager
def counted(computes: Any) -> Iterator[Count]:
    """Counts the computations since the block began.

    `computes`: a cached function, a mock, a function without parameters that returns their number, or a list of
    these. Raises `Misuse` for anything else.
    """
    several = computes if isinstance(computes, list | tuple) else [computes]
    if not several:
        raise Misuse("computes=[] counts nothing: name the cached functions whose computations are counted")
    with contextlib.ExitStack() as stack:
        counts = [stack.enter_context(_counted(each)) for each in several]
        yield lambda: sum(count() for count in counts)


@contextlib.contextmanager
def _counted(what: Any) -> Iterator[Count]:
    face = face_of(what)
    if face is not None:
        with _calls_of(face) as count:
            yield count
        return
    read = _reader(what)
    before = read()
    yield lambda: read() - before


def _reader(what: Any) -> Count:
    if isinstance(getattr(what, "call_count", None), int):
        return lambda: int(what.call_count)
    if callable(what) and not inspect.iscoroutinefunction(what):
        with contextlib.suppress(TypeError, ValueError):
            inspect.signature(what).bind()
            if type(what()) is int:
                read: Count = what
                return read
    raise Misuse(
        f"computes={name_of(what)} cannot be counted: give a function decorated with @locked_cache or @cached_many, a "
        "mock (anything with call_count), or a function without parameters that returns how many computations there "
        "were, for example computes=lambda: database.queries"
    )


class _Watched:
    """One face whose calls are counted. Several counters may be active at once."""

    def __init__(self, face: Face[Any, Any]) -> None:
        self.calls = 0
        self.watchers = 0
        self._face = face
        self._original = face._function

    def begin(self) -> None:
        original = self._original

        @functools.wraps(original)
        def counting(*args: Any, **kwargs: Any) -> Any:
            with _lock:  # plain functions compute in threads
                self.calls += 1
            return original(*args, **kwargs)

        self._face._function = counting

    def end(self) -> None:
        self._face._function = self._original


@contextlib.contextmanager
def _calls_of(face: Face[Any, Any]) -> Iterator[Count]:
    with _lock:
        watched = _watched.get(face)
        if watched is None:
            watched = _watched[face] = _Watched(face)
            watched.begin()
        watched.watchers += 1
        before = watched.calls
    try:
        yield lambda: watched.calls - before
    finally:
        with _lock:
            watched.watchers -= 1
            if not watched.watchers:
                watched.end()
                del _watched[face]
