"""Functions with the parameters of another function, so that Python itself binds the arguments of a call."""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stampede_guard.values.arguments.signatures import signature_of

__all__ = ["OURS", "Bound", "arguments_of", "binder", "made", "parameters_of"]

_Parameter = inspect.Parameter
OURS = "stampede_guard_"
"""How the parameters begin that an integration adds. No message shows them."""


class Bound:
    """A value that a function brings along and no call gives; it is read as a context variable is."""

    __slots__ = ("_value", "name")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self._value = value

    def get(self) -> Any:
        return self._value


def parameters_of(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    return dict(signature_of(function).parameters)


def arguments_of(
    function: Callable[..., Any], names: Sequence[str], resources: frozenset[str]
) -> Callable[..., tuple[Any, ...]]:
    """A function with the parameters of the original. It returns the parameters with these names."""
    return binder(function, parameters_of(function), names, resources)


def binder(
    function: Callable[..., Any],
    parameters: dict[str, inspect.Parameter],
    keyed: Sequence[str],
    supplied: frozenset[str],
) -> Callable[..., tuple[Any, ...]]:
    """A function with the parameters of the original. It returns the keyed ones as a tuple."""
    return made(function, parameters, supplied, f"({''.join(f'{name}, ' for name in keyed)})")


def made(
    function: Callable[..., Any],
    parameters: dict[str, inspect.Parameter],
    supplied: frozenset[str],
    body: str,
    tools: dict[str, Any] | None = None,
) -> Callable[..., Any]:
    """A function with the parameters of the original and this body.

    Python then binds arguments and defaults, ten times faster than `inspect.Signature.bind`, and its own errors
    report wrong arguments. Parameters that the computation gets from elsewhere become optional keyword parameters.
    """
    optional = {name: parameter for name, parameter in parameters.items() if name in supplied}
    ordered = [parameter for name, parameter in parameters.items() if name not in supplied]
    declared = _declaration(ordered, optional)
    # this source contains only names that Python accepted as parameters, and no values
    bound: Any = eval(f"lambda {declared}: {body}", {"__builtins__": {}} | (tools or {}))
    by_position = (_Parameter.POSITIONAL_ONLY, _Parameter.POSITIONAL_OR_KEYWORD)
    bound.__defaults__ = tuple(
        p.default for p in ordered if p.kind in by_position and p.default is not _Parameter.empty
    )
    bound.__kwdefaults__ = {
        p.name: p.default
        for p in ordered
        if p.kind is _Parameter.KEYWORD_ONLY and p.default is not _Parameter.empty
    } | dict.fromkeys(optional)
    bound.__name__ = bound.__qualname__ = getattr(function, "__qualname__", "function")
    return bound  # type: ignore[no-any-return]


def _declaration(ordered: Sequence[inspect.Parameter], optional: Iterable[str]) -> str:
    groups: defaultdict[object, list[str]] = defaultdict(list)
    for parameter in ordered:
        groups[parameter.kind].append(parameter.name)
    declared = list(groups[_Parameter.POSITIONAL_ONLY])
    if declared:
        declared.append("/")
    declared += groups[_Parameter.POSITIONAL_OR_KEYWORD]
    named = [*groups[_Parameter.KEYWORD_ONLY], *optional]
    if groups[_Parameter.VAR_POSITIONAL]:
        declared.append("*" + groups[_Parameter.VAR_POSITIONAL][0])
    elif named:
        declared.append("*")
    declared += named
    declared += [f"**{name}" for name in groups[_Parameter.VAR_KEYWORD]]
    return ", ".join(declared)
