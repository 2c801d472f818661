"""What is refused when a function is decorated: names that are no parameters, and parameters that no key can hold."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from stampede_guard.errors import KeyPartError
from stampede_guard.values import annotations as said
from stampede_guard.values.arguments.binding import OURS
from stampede_guard.values.keys import advice
from stampede_guard.values.keys.rows import is_row

__all__ = ["checked_names", "refuse_live_annotations", "refused_row", "take_requests"]


def checked_names(
    function: str, option: str, names: Iterable[str], parameters: Iterable[str]
) -> frozenset[str]:
    if isinstance(names, str):
        raise KeyPartError(
            f"{option}={names!r} of {function}() must be a tuple: {option}=({names!r},)", parameter=names
        )
    chosen = frozenset(names)
    for name in sorted(chosen.difference(parameters)):
        known = ", ".join(parameters) or "none"
        raise KeyPartError(
            f"{option} names {name!r}, but {function}() has no such parameter (it has: {known})",
            parameter=name,
        )
    return chosen


def take_requests(hints: Mapping[str, Any]) -> bool:
    """Whether `key=` gets a request: it may read a credential there."""
    kinds = [kind for name, hint in hints.items() if name != "return" for kind in said.alternatives(hint)]
    return any(isinstance(kind, type) and advice.is_request(kind) for kind in kinds)


def refused_row(name: str, parameter: str, kind: type, parameters: Sequence[str]) -> KeyPartError:
    """The error for a row as a parameter. `parameters`: those that `key=` gets."""
    return KeyPartError(
        f"parameter {parameter!r} of {name}() is a row of a database, {said.root_package(kind)} {kind.__name__}, and "
        f"cannot be part of its key: which attributes it has depends on its session. "
        f"To fix: {advice.for_row(parameter, kind, parameters)}.",
        parameter=parameter,
    )


def refuse_live_annotations(
    function: Callable[..., Any],
    name: str,
    keyed: Sequence[str],
    hints: Mapping[str, Any],
    supplied: Collection[str] = (),
) -> None:
    """Raises `KeyPartError` for a parameter in the key that is a connection, a request or a row of a database."""
    given = inspect.signature(function).parameters
    own = [each for each in given if each not in supplied and not each.startswith(OURS)]
    for parameter in keyed:
        for annotation in said.alternatives(hints.get(parameter)):
            if is_row(annotation) and not hasattr(annotation, "__cache_key__"):
                raise refused_row(name, parameter, annotation, own)
            kind = said.live_kind(annotation)
            if kind is None:
                continue
            if isinstance(annotation, type) and advice.is_request(annotation):
                cure = advice.for_request(parameter, list(inspect.signature(function).parameters))
            else:
                # `Info[Context, None]` is no class, and its origin is.
                kind_or_origin = typing.get_origin(annotation) or annotation
                kinds = (kind_or_origin,) if isinstance(kind_or_origin, type) else ()
                cure = advice.for_parameter(parameter, kinds)
            raise KeyPartError(
                f"parameter {parameter!r} of {name}() is {said.a(kind)} and cannot be part of its key: "
                f"it has no text that stays the same between calls. To fix: {cure}.",
                parameter=parameter,
            )
