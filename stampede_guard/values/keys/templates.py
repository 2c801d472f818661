"""`key="user:{user_id}"`: the key has the parameters that the template names, and no others.

Each value is written as in any other key. Between two values stands a text that is the same in every key of the
function, so that two different calls never have one key. The template itself is part of the key's digest.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Mapping, Sequence

from stampede_guard.errors import Misuse
from stampede_guard.values.arguments.templates import LONGEST, check_names, names_in, parsed
from stampede_guard.values.parts.parts import escape

__all__ = ["Places", "places_of", "places_of_template"]

Places = tuple[Sequence[tuple[str, str]], str]
"""The parameters in a key, each after the text before its value, and the text after the last value."""


def places_of(keyed: Sequence[str]) -> Places:
    """Without a template: `a=1,b='x'`."""
    return [("," * (place > 0) + f"{escape(name)}=", name) for place, name in enumerate(keyed)], ""


def places_of_template(
    template: str,
    function: str,
    parameters: Mapping[str, inspect.Parameter],
    *,
    unkeyed: Collection[str],
    resources: Collection[str],
) -> Places:
    """Raises `KeyPartError` or `Misuse` for a template that cannot be filled in."""
    title = f"{function}()"
    if not 0 < len(template) <= LONGEST:
        raise Misuse(f"the key of {title} is a text of 1 to {LONGEST} characters, not of {len(template)}")
    parts = parsed(template, title, what="key")
    check_names(names_in(parts), title, parameters, option="key", unkeyed=unkeyed, resources=resources)
    given = [name for name in parameters if name not in resources and name not in unkeyed]
    if given and not names_in(parts):
        named = template if template in given else given[0]
        raise Misuse(
            f"the key {template!r} of {title} names no parameter, so all calls would share one entry: write "
            f"'{named}:{{{named}}}'"
        )
    places: list[tuple[str, str]] = []
    literal = ""
    for text, name in parts:
        literal += text  # a doubled brace ends one part, and the next begins without a name
        if name:
            places.append((_apart(literal) if places else escape(literal), name))
            literal = ""
    return places, _apart(literal) if places and literal else escape(literal)


def _apart(literal: str) -> str:
    """The text between two values. Outside of quotes and parentheses, no value's text has one of these marks."""
    return escape(literal) if literal[:1] in (":", "/") else f",{escape(literal)}"
