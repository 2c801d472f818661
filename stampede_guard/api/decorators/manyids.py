"""The ids of a `@cached_many` function: the parameter that holds them, and the type of its values."""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable, Iterable
from typing import Any

from stampede_guard.api.decorators.options import Options
from stampede_guard.errors import KeyPartError, Misuse, UnsupportedValue
from stampede_guard.values.annotations import resolve, unwrap
from stampede_guard.values.arguments.templates import names_in, parsed
from stampede_guard.values.parts.parts import Unkeyable, text_of

__all__ = ["distinct", "id_of", "ids_of", "like", "of_values", "kept", "value_of"]

_MAPPINGS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_COLLECTIONS = (list, tuple, set, frozenset)


def distinct(given: Any, name: str, title: str) -> list[Any]:
    """Each id once. Raises `Misuse` if these are not ids, or if a dict cannot hold two of them together."""
    if isinstance(given, str | bytes) or not isinstance(given, collections.abc.Iterable):
        raise Misuse(f"{name!r} of {title}() must be a list of ids, not a {type(given).__name__}")
    found: dict[Any, Any] = {}
    try:
        for id in given:
            other = found.setdefault(id, id)
            if other is not id and not _same(other, id):
                kinds = f"{type(other).__name__} and {type(id).__name__}"
                raise Misuse(
                    f"{name!r} of {title}() holds two different ids that are equal ({kinds}): the result is a dict, "
                    f"which has one place for both. Pass them in two calls"
                )
    except TypeError as error:
        raise Misuse(f"{name!r} of {title}() holds an id that is not hashable: {error}") from None
    return list(found)


def _same(one: Any, other: Any) -> bool:
    try:
        return text_of(one) == text_of(other)
    except Unkeyable:
        return type(one) is type(other)


def like(given: Any, ids: list[Any]) -> Any:
    """The ids in the kind of collection that the caller passed, or in a list. The function may change it."""
    return (type(given) if type(given) in _COLLECTIONS else list)(ids)


def kept(given: Any) -> Any:
    """The ids themselves, or a list of those that can perhaps be read only once: a generator, a view of a dict."""
    if isinstance(given, (*_COLLECTIONS, str, bytes)) or not isinstance(given, collections.abc.Iterable):
        return given
    return list(given)


def ids_of(function: Callable[..., Any], ids: str | None, options: Options) -> tuple[str, int | None]:
    """The name of the parameter with the ids, and its position if it has one."""
    parameters = inspect.signature(function).parameters
    taken = {"self", "cls", *options.unkeyed, *options.resources}
    named = ids if ids is not None else next((name for name in parameters if name not in taken), "")
    parameter = parameters.get(named)
    single = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if parameter is None or parameter.kind in single or named in taken:
        known = ", ".join(parameters) or "none"
        raise Misuse(
            f"@cached_many needs a parameter with a list of ids, for example `ids: list[int]`; "
            f"{function.__qualname__}() has: {known}"
            + (f"; ids={ids!r} is not such a one" if ids is not None else "")
        )
    title = f"{function.__qualname__}()"
    if isinstance(options.key, str) and named not in names_in(parsed(options.key, title, what="key")):
        raise KeyPartError(
            f"the key of {title} must name {{{named}}}, which means one id there: else all ids would share one entry",
            parameter=named,
        )
    if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
        return named, None
    # Callers do not pass the resources.
    return named, [name for name in parameters if name not in options.resources].index(named)


def id_of(function: Callable[..., Any], ids: str) -> Any:
    """K of `ids: list[K]`; Any without an annotation."""
    parts = typing.get_args(unwrap(resolve(function).get(ids, Any)))
    return parts[0] if len(parts) == 1 or parts[1:] == (Ellipsis,) else Any


def value_of(annotation: Any, function: Callable[..., Any]) -> Any:
    """T of `-> dict[K, T]`; Any without an annotation."""
    kind = unwrap(annotation)
    origin = typing.get_origin(kind) or kind
    if kind is Any or origin is Any:
        return Any
    if origin not in _MAPPINGS:
        written = resolve(function).get("return")
        raise UnsupportedValue(
            f"{function.__qualname__}() is annotated to return {written!r}; @cached_many needs a dict from id to "
            f"value, for example dict[int, Product]"
        )
    return _in_mapping(kind)


def of_values(models: Iterable[Any]) -> tuple[Any, ...]:
    """The response models of routes, each for one value. None, no response model, stays None."""
    found = [None if model is None else _in_mapping(unwrap(model)) for model in models]
    return tuple(model for model in found if model is not Any)


def _in_mapping(kind: Any) -> Any:
    """T of `dict[K, T]`; Any for a type that does not tell it."""
    parts = typing.get_args(kind)
    return parts[1] if typing.get_origin(kind) in _MAPPINGS and len(parts) == 2 else Any
