"""`key=` as a function of the call's parameters. Python binds the call to the cached function, so defaults count."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stampede_guard.errors import KeyPartError
from stampede_guard.values.annotations import is_marker
from stampede_guard.values.arguments.binding import OURS, made
from stampede_guard.values.arguments.signatures import signature_of

__all__ = ["with_parameters_of"]

_Parameter = inspect.Parameter
_VARIABLE = (_Parameter.VAR_POSITIONAL, _Parameter.VAR_KEYWORD)
_OWN_NAME = "_key_of_the_call"


def with_parameters_of(
    function: Callable[..., Any],
    key: Callable[..., Any],
    name: str,
    parameters: Mapping[str, _Parameter],
    supplied: frozenset[str],
) -> Callable[..., tuple[Any, ...]]:
    """A function with the parameters of the cached one. It returns what `key` returns for them, in a tuple.

    `key` gets all parameters that are not resources: by their names, or in their order if it has other names for
    them. Raises `KeyPartError` if it cannot take them: a call would fail otherwise, or leave one out by mistake.
    """
    visible = [parameter for parameter in parameters.values() if parameter.name not in supplied]
    taken = _signature(key)
    if taken is not None:
        visible = [_with_a_plain_default(parameter, taken) for parameter in visible]
    for by_name in (True, False):
        if taken is None or _takes(taken, visible, by_name=by_name):
            passed = _passed(visible, by_name=by_name and taken is not None)
            tool = _OWN_NAME + "_" * max(map(len, parameters), default=0)
            own = {parameter.name: parameter for parameter in visible}
            body = f"({tool}({', '.join(passed)}),)"
            return made(function, {**parameters, **own}, supplied, body, {tool: key})
    raise _refused(name, taken, visible, supplied)


def _signature(key: Callable[..., Any]) -> inspect.Signature | None:
    """None for a callable that does not show its parameters, such as `str`."""
    try:
        return signature_of(key)
    except (TypeError, ValueError):
        return None


def _with_a_plain_default(parameter: _Parameter, taken: inspect.Signature) -> _Parameter:
    """A default such as `Query(1)` means something to FastAPI only. The default of `key` stands for it."""
    own = taken.parameters.get(parameter.name)
    if own is None or own.default is _Parameter.empty or not is_marker(parameter.default):
        return parameter
    return parameter.replace(default=own.default)


def _passed(visible: Sequence[_Parameter], *, by_name: bool) -> list[str]:
    """The arguments of `key`, as source."""
    in_order = not by_name or any(parameter.kind is _Parameter.VAR_POSITIONAL for parameter in visible)
    first, named = [], []
    for parameter in visible:
        match parameter.kind:
            case _Parameter.VAR_POSITIONAL:
                first.append(f"*{parameter.name}")
            case _Parameter.VAR_KEYWORD:
                named.append(f"**{parameter.name}")
            case _Parameter.KEYWORD_ONLY:
                named.append(f"{parameter.name}={parameter.name}")
            case _Parameter.POSITIONAL_OR_KEYWORD if not in_order:
                named.append(f"{parameter.name}={parameter.name}")
            case _:
                first.append(parameter.name)
    return [*first, *named]


def _takes(taken: inspect.Signature, visible: Sequence[_Parameter], *, by_name: bool) -> bool:
    given = _passed([parameter for parameter in visible if parameter.kind not in _VARIABLE], by_name=by_name)
    if any(parameter.kind is _Parameter.VAR_POSITIONAL for parameter in visible) and by_name:
        return False
    order = [text for text in given if "=" not in text]
    try:
        bound = taken.bind(
            *order, **{name: name for name, mark, _ in (text.partition("=") for text in given) if mark}
        )
    except TypeError:
        return False
    # By position, a parameter that has the name of another one would get the value of the wrong one.
    names = {parameter.name for parameter in visible}
    return by_name or all(
        found == name or name not in names
        for name, found in bound.arguments.items()
        if isinstance(found, str)
    )


def _refused(
    name: str, taken: inspect.Signature | None, visible: Sequence[_Parameter], supplied: frozenset[str]
) -> KeyPartError:
    names = [parameter.name for parameter in visible if not parameter.name.startswith(OURS)]
    own = [str(one) for name, one in taken.parameters.items() if not name.startswith(OURS)] if taken else []
    opened = sorted(supplied.intersection(taken.parameters if taken is not None else ()))
    why = f" {opened[0]!r} is in resources=, and opened after the key is made." if opened else ""
    template = ":".join(f"{{{each}}}" for each in names)
    return KeyPartError(
        f"key= of {name}() gets every parameter of a call ({', '.join(names) or 'none'}), and its own are "
        f"({', '.join(own)}).{why} To fix: write key=lambda {', '.join(names)}: ... with all that decides the result, "
        f"or name those parameters in a template, key={template!r}",
        parameter="key",
    )
