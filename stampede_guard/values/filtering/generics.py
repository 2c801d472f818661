"""The annotations of a class's fields, with the arguments of `Page[User]` in the place of its type variables.

Each base has arguments of its own: `class Users(Page[User])` says what the fields of `Page` hold.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["hints_of"]

_Given = Mapping[Any, Any]


def hints_of(kind: Any, arguments: tuple[Any, ...]) -> Mapping[str, Any]:
    """By field, also those of the bases. Empty if an annotation cannot be evaluated."""
    try:
        return _remembered(kind, arguments)
    except TypeError:  # an argument without a hash, as `Annotated` may have one
        return _found(kind, arguments)


def _found(kind: type, arguments: tuple[Any, ...]) -> Mapping[str, Any]:
    try:
        hints = typing.get_type_hints(kind, include_extras=True)
    except Exception:  # usually a NameError, but evaluation runs code that can raise anything
        return {}
    given: dict[type, _Given] = {}
    _bind(kind, arguments, given)
    # The bases of a `TypedDict` are in no `__mro__`, and it repeats their fields as its own.
    line = (
        [*reversed(given)] if typing.is_typeddict(kind) else [base for base in kind.__mro__ if base in given]
    )
    owners = {name: base for base in reversed(line) for name in _declared(base)}
    return {name: _bound(hint, given.get(owners.get(name, kind), {})) for name, hint in hints.items()}


_remembered = functools.lru_cache(maxsize=512)(_found)


def _declared(kind: type) -> Iterable[str]:
    return getattr(kind, "__annotations__", ())


def _bind(kind: type, arguments: tuple[Any, ...], found: dict[type, _Given]) -> None:
    """What each class of the line was given for its own type variables."""
    if kind in found:
        return
    given = dict(zip(getattr(kind, "__parameters__", ()), arguments, strict=False))
    found[kind] = given
    for base in vars(kind).get("__orig_bases__", kind.__bases__):
        origin = typing.get_origin(base) or base
        if isinstance(origin, type) and origin not in (object, typing.Generic, typing.Protocol):
            _bind(origin, tuple(_bound(argument, given) for argument in typing.get_args(base)), found)


def _bound(hint: Any, given: _Given) -> Any:
    if isinstance(hint, typing.TypeVar):
        return given.get(hint, hint)
    parameters = _parameters(hint)
    if not any(one in given for one in parameters):
        return hint
    try:
        return hint[tuple(given.get(one, one) for one in parameters)]
    except TypeError:  # a `TypeVarTuple`
        return hint


def _parameters(hint: Any) -> tuple[Any, ...]:
    if isinstance(hint, type):
        # A generic model of pydantic is a class also with its arguments. `Model[T]` is `Model` itself.
        about = getattr(hint, "__pydantic_generic_metadata__", None) or {}
        found = about.get("parameters", ())
        return found if isinstance(found, tuple) else ()
    found = getattr(hint, "__parameters__", ())
    return found if isinstance(found, tuple) else ()
