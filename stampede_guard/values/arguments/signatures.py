"""Reads the parameters of whatever Python can call.

`inspect.signature` leaves two gaps. Before Python 3.13 it takes the first parameter of each `__call__` for `self`, also
of a static method. And it cannot read an object that looks like a function and is none, such as `AsyncMock` in 3.11.2.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

from stampede_guard.errors import Misuse
from stampede_guard.values.annotations import is_marker

__all__ = ["refuse_other_defaults", "signature_of"]

_MOST_LAYERS = 100
_UNBOUND = (staticmethod, classmethod)


def signature_of(given: Any) -> inspect.Signature:
    """The parameters of a call of `given`. Raises `TypeError` or `ValueError` if they are not visible."""
    if isinstance(given, functools.partial) and "__signature__" not in vars(given):
        return _read(functools.partial(_like(signature_of(given.func)), *given.args, **given.keywords))
    call = None if _is_read_directly(given) else _called(given)
    bind = getattr(type(call), "__get__", None)
    if call is not None and bind is None:
        return signature_of(call)
    if isinstance(call, _UNBOUND):
        return _read(call.__get__(given, type(given)))
    try:
        return _read(given)
    except (TypeError, ValueError):
        if bind is None:
            raise
        # What the class of the object says of its calls.
        return _read(bind(call, given, type(given)))


def refuse_other_defaults(given: Any, filled: frozenset[str] = frozenset()) -> None:
    """Refuse a wrapper that has another default than the function whose parameters it shows with `functools.wraps`.

    A call without the argument is computed with the wrapper's default, and its key would have that of the function.
    """
    if isinstance(given, functools.partial):
        by_position = [*_parameters(given.func, follow_wrapped=True)][: len(given.args)]
        refuse_other_defaults(given.func, filled.union(given.keywords, by_position))
        return
    *wrappers, shown = _layers(given)
    inner = _parameters(shown, follow_wrapped=False)
    for wrapper in wrappers:
        for name, own in _parameters(wrapper, follow_wrapped=False).items():
            if name in inner and name not in filled and _differ(own.default, inner[name].default):
                title = getattr(shown, "__qualname__", type(shown).__qualname__)
                by = getattr(getattr(wrapper, "__code__", None), "co_qualname", "a wrapper")
                raise Misuse(
                    f"parameter {name!r} of {title}() has another default in the function around it ({by}), and "
                    "functools.wraps shows only one of them: a call without it would be computed with the one, and "
                    "stored with the other. Give both the same default; or let the wrapper take *args and **kwargs; or "
                    "write wrapper.__signature__ = inspect.signature(wrapper, follow_wrapped=False)"
                )


def _layers(given: Any) -> list[Any]:
    """The function and those that it wraps, down to the one whose parameters `inspect.signature` shows."""
    found = [given]
    while len(found) < _MOST_LAYERS:
        held = getattr(found[-1], "__dict__", {})
        if "__signature__" in held or "__wrapped__" not in held:
            break
        found.append(held["__wrapped__"])
    return found


def _parameters(given: Any, *, follow_wrapped: bool) -> dict[str, inspect.Parameter]:
    try:
        found = signature_of(given) if follow_wrapped else _read(given, follow_wrapped=False)
    except (TypeError, ValueError):
        return {}
    return dict(found.parameters)


def _differ(one: Any, other: Any) -> bool:
    empty = inspect.Parameter.empty
    if one is other or one is empty or other is empty or (is_marker(one) and is_marker(other)):
        return False  # with one default alone, or one for FastAPI, the call itself fails
    try:
        return type(one) is not type(other) or not bool(one == other)
    except Exception:  # an `__eq__` of the user's class
        return True


def _is_read_directly(given: Any) -> bool:
    """Whether it is a function, method or class; or says itself what its parameters are."""
    # A mock with a function as its `spec` says that it is a function.
    is_function = inspect.isroutine(given) and given.__class__ is type(given)
    return is_function or isinstance(given, type) or "__signature__" in getattr(given, "__dict__", ())


def _called(given: Any) -> Any:
    """The attribute that Python calls, as it stands in the class. None: it cannot be called."""
    return inspect.getattr_static(type(given), "__call__", None)


def _like(signature: inspect.Signature) -> Any:
    def stand_in(*_: Any, **__: Any) -> None:
        raise AssertionError("never called")

    stand_in.__signature__ = signature  # type: ignore[attr-defined]
    return stand_in


def _read(given: Any, *, follow_wrapped: bool = True) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(
            given, follow_wrapped=follow_wrapped, annotation_format=annotationlib.Format.FORWARDREF
        )
    return inspect.signature(given, follow_wrapped=follow_wrapped)
