"""What a decorated callable brings along and no call gives: arguments of a partial, the object of a method, a callable
object. It decides the result, so it is part of the key. It may change between two calls, so each call's key has it.

Of an argument, the attributes count. The object whose method is decorated is like `self`: it may count its calls or
open a connection, so only itself knows what decides the result (`__cache_key__`). An object without a text is refused
at decoration: at a call, nobody would notice that it is not in the key. A key contains neither the code of functions
and classes, nor test doubles.
"""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable, Iterator
from typing import Any

from stampede_guard.errors import KeyPartError
from stampede_guard.values.annotations import a, root_package, title_of
from stampede_guard.values.arguments.binding import Bound
from stampede_guard.values.arguments.captured import IMMUTABLE
from stampede_guard.values.keys.naming import innermost
from stampede_guard.values.parts.parts import Unkeyable, is_plain_object, text_of
from stampede_guard.values.parts.state import attributes

__all__ = ["bound_objects", "bound_values", "is_marked", "mark_brought"]

_BOUND = "__stampede_guard_bound__"
_OBJECTS = "__stampede_guard_objects__"
_METHODS = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)
_OF_ITS_OWN = "it has attributes that may change, and only itself knows which of them decide the result"
_CALLABLES = (functools.partial, types.FunctionType, *_METHODS)


class _Whole(Bound):
    """An object that is described by its attributes. Without any, its class is its text, until it gets one.

    `owner`: the callable whose own object it is. Such an object may not get any.
    """

    __slots__ = ("_owner",)

    def __init__(self, name: str, value: Any, *, owner: Any = None) -> None:
        super().__init__(name, value)
        self._owner = owner

    def get(self) -> Any:
        value = super().get()
        if not attributes(value):
            return f"{type(value).__module__}.{type(value).__qualname__}"
        if self._owner is not None:
            raise _unkeyable(value, self._owner, Unkeyable(type(value), _OF_ITS_OWN))
        return value


def mark_brought(function: Callable[..., Any], given: Any) -> None:
    """Note on a function that calls `given` what that one brings along."""
    setattr(function, _BOUND, bound_values(given))
    setattr(function, _OBJECTS, tuple(_objects_of(given)))


def is_marked(function: Any) -> bool:
    return hasattr(function, _BOUND)


def bound_values(function: Any) -> str:
    """The text of a partial's positional arguments, for the key: no call can pass them again."""
    if not isinstance(function, functools.partial):
        return str(getattr(function, _BOUND, ""))
    texts = [bound_values(function.func)]
    for value in function.args:
        try:
            # The attributes of an object may have changed until the first call, which has them in its key.
            is_followed = type(value) not in IMMUTABLE and _is_described(value)
            texts.append(type(value).__qualname__ if is_followed else text_of(value))
        except (Unkeyable, RecursionError):
            texts.append(type(value).__qualname__)
    return ",".join(texts) if function.args else texts[0]


def bound_objects(function: Any) -> tuple[Bound, ...]:
    """Everything else that a callable brings along, for each call's key. Raises `KeyPartError` for an object that has
    no text.
    """
    found = getattr(function, _OBJECTS, None)
    values = tuple(_objects_of(function)) if found is None else found
    return tuple(_bound(f"bound{number}", value, own, function) for number, (value, own) in enumerate(values))


def _objects_of(function: Any, *, inside: bool = False, own: bool = True) -> Iterator[tuple[Any, bool]]:
    """Objects, and whether they are the decorated callable's own, like `self`.

    `inside`: `bound_values` has nothing of what the partials of this callable fill in.
    """
    if (known := getattr(function, _OBJECTS, None)) is not None:
        yield from known
    elif isinstance(function, functools.partial):
        yield from _objects_of(function.func, inside=inside, own=own)
        for value in (*function.args, *function.keywords.values()) if inside else function.args:
            yield from _objects_in(value, inside=inside)
    elif isinstance(function, _METHODS):
        yield from _objects_in(function.__self__, inside=True, own=own)
    elif (wrapped := _wrapped(function)) is not None:
        yield from _objects_of(wrapped, inside=True, own=own)
    elif not inspect.isroutine(function) and not _is_code(function):
        yield function, own


def _objects_in(value: Any, *, inside: bool, own: bool = False) -> Iterator[tuple[Any, bool]]:
    if isinstance(value, _CALLABLES) or _wrapped(value) is not None:
        yield from _objects_of(value, inside=True, own=own)
    elif not _is_code(value) and (inside or type(value) not in IMMUTABLE):
        yield value, own


def _wrapped(function: Any) -> Any:
    """The callable behind a wrapper. An object that has every attribute that it is asked for wraps nothing."""
    own = getattr(function, "__dict__", None)
    wrapped = own.get("__wrapped__") if isinstance(own, dict) else None
    return wrapped if callable(function) and callable(wrapped) and not isinstance(function, type) else None


def _is_code(value: Any) -> bool:
    return value is None or isinstance(value, type | types.ModuleType) or _is_a_double(value)


def _is_a_double(value: Any) -> bool:
    return any(root_package(base) in ("unittest", "mock") for base in type(value).__mro__)


def _bound(name: str, value: Any, own: bool, function: Any) -> Bound:
    if hasattr(type(value), "__cache_key__"):
        return Bound(name, value)
    bound = (
        _Whole(name, value, owner=function if own else None) if _is_described(value) else Bound(name, value)
    )
    try:
        text_of(bound.get())
    except (Unkeyable, RecursionError) as problem:
        raise _unkeyable(value, function, problem) from None
    return bound


def _is_described(value: Any) -> bool:
    """Whether the attributes of an object of no special class are its text."""
    try:
        return not isinstance(value, type) and is_plain_object(type(value))
    except Unkeyable:
        return False


def _unkeyable(value: Any, function: Any, problem: Unkeyable | RecursionError) -> KeyPartError:
    # never the value itself: it may be a secret, and this text is logged
    kind = title_of(type(value))
    inner, reason = "", "it is nested too deeply, or holds itself"
    if isinstance(problem, Unkeyable):
        inner = "" if problem.kind is type(value) else f" with {a(title_of(problem.kind))} inside"
        reason = problem.reason or "it has no text that stays the same between processes"
    name = getattr(innermost(function), "__qualname__", None) or kind
    return KeyPartError(
        f"{name}() brings along {a(kind)}{inner}, and it cannot be part of the key: {reason}. Other processes may have "
        "another one there, and would be served this one's results. To fix: give its class a method "
        "`__cache_key__(self)` that returns what the result does depend on (strings, numbers, a tuple of them); or "
        "key=lambda ...: ... with the parameters of a call, returning what the result does depend on; or, if it is the "
        "same in every process, decorate a function that calls it",
        parameter="self",
    )
