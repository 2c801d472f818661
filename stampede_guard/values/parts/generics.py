"""How a key names a generic class with its arguments: `Page[int]` of pydantic, and what a dataclass remembers of the
call `Page[int](...)`.

Pydantic creates a class for each list of arguments, under a name that has only the last names of the arguments. The
class is in its module if it was first used there, and else it is not. So its own name says too little.
"""

from __future__ import annotations

import sys
import typing
from collections.abc import Callable, Iterator
from typing import Any

__all__ = ["arguments_of", "classes_in", "is_alias", "text_with"]

_METADATA = "__pydantic_generic_metadata__"


def arguments_of(kind: type) -> tuple[type, tuple[Any, ...]] | None:
    """The generic class and its arguments, for a class that pydantic created for `Page[int]`. None for others."""
    about = vars(kind).get(_METADATA)
    if not isinstance(about, dict) or not isinstance(about.get("origin"), type):
        return None
    return about["origin"], tuple(about["args"])


def is_alias(value: Any) -> bool:
    """Whether it is `Page[int]` of a class that Python itself makes generic."""
    return not isinstance(value, type) and isinstance(typing.get_origin(value), type)


def classes_in(value: Any) -> Iterator[type]:
    """All classes in the name of a class, an alias or an argument."""
    made = arguments_of(value) if isinstance(value, type) else None
    if made is not None:
        for one in (made[0], *made[1]):
            yield from classes_in(one)
    elif isinstance(value, type):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from classes_in(one)
    elif (origin := typing.get_origin(value)) is not None:
        yield from classes_in(origin)
        if origin is not typing.Literal:
            yield from classes_in(typing.get_args(value))
    elif isinstance(value, typing.NewType):
        yield from classes_in(value.__supertype__)


def text_with(
    origin: Any, arguments: tuple[Any, ...], name_of: Callable[[type], str], text_of: Callable[[Any], str]
) -> str:
    """The name of a generic class and of its arguments. Raises what `text_of` raises for an argument without a text."""

    def text(value: Any) -> str:
        if isinstance(value, type):
            return name_of(value)
        if isinstance(value, list):  # the parameters in `Callable[[int], str]`
            return f"({','.join(map(text, value))})"
        found = typing.get_origin(value)
        if found is not None:
            return text_with(found, typing.get_args(value), name_of, text_of)
        if isinstance(value, typing.NewType):
            return f"new({text_of(value.__module__)},{text_of(value.__name__)},{text(value.__supertype__)})"
        if isinstance(value, typing.TypeVar):
            bounds = [text(one) for one in (value.__bound__, *value.__constraints__)]
            return f"var({text_of(value.__module__)},{text_of(value.__name__)},{','.join(bounds)})"
        if _is_special(value):
            return f"special({text_of(repr(value))})"
        return text_of(value)

    if origin is typing.Literal:
        return f"special({text_of(repr(origin))})(of,{','.join(map(text_of, arguments))})"
    return f"{text(origin)}(of,{','.join(map(text, arguments))})"


def _is_special(value: Any) -> bool:
    """`Any`, `Union` and the like, which `typing` has under their names."""
    name = getattr(value, "_name", None)
    return isinstance(name, str) and getattr(sys.modules["typing"], name, None) is value
