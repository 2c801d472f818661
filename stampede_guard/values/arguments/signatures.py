"""Reads the parameters of whatever Python can call.

`inspect.signature` leaves two gaps. Before Python 3.13 it takes the first parameter of each `__call__` for `self`, also
of a static method. And it cannot read an object that looks like a function and is none, such as `AsyncMock` in 3.11.2.
"""

from __future__ import annotations

import functools
import inspect
import sys
from typing import Any

__all__ = ["signature_of"]

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


def _read(given: Any) -> inspect.Signature:
    if sys.version_info >= (3, 14):
        import annotationlib

        return inspect.signature(given, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(given)
