"""Templates: `"project:{project}"` is filled in with a call's arguments. `tags=` and `key=` take them."""

from __future__ import annotations

import difflib
import inspect
import string
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from typing import Literal

from stampede_guard.errors import KeyPartError, Misuse

__all__ = ["CALLER", "LONGEST", "Part", "check_names", "names_in", "parsed"]

LONGEST = 512
Part = tuple[str, str]
"""A literal text, and the parameter that follows it. The name is empty after the last literal."""
CALLER = "stampede_guard_caller"
"""A parameter that integrations add to a function of a user, who must not read of it."""
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_UNKEYED = {
    "tags": "calls with the same key would have different tags",
    "key": "take it out of the template, or out of unkeyed=",
}


def parsed(template: str, title: str, *, what: str) -> list[Part]:
    """The parts of a template. Raises `Misuse` for anything in braces but a name."""
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise Misuse(
            f"the {what} {template!r} of {title} is not a template: {error}. A brace is written {{{{"
        ) from None
    found = []
    for literal, name, form, conversion in parts:
        if name is not None and (form or conversion or not name.isidentifier()):
            wrong = name + (f"!{conversion}" if conversion else "") + (f":{form}" if form else "")
            raise Misuse(
                f"the {what} {template!r} of {title} has {{{wrong}}} in it: write the name of a parameter in the "
                f"braces and nothing else, as in 'project:{{project}}'"
            )
        # Python normalises the names of parameters in the same way.
        found.append((literal, unicodedata.normalize("NFKC", name or "")))
    return found


def names_in(parts: Iterable[Part]) -> list[str]:
    """The parameters that the parts name, each once."""
    return list(dict.fromkeys(name for _, name in parts if name))


def check_names(
    names: Iterable[str],
    title: str,
    parameters: Mapping[str, inspect.Parameter],
    *,
    option: Literal["tags", "key"],
    unkeyed: Collection[str],
    resources: Collection[str],
) -> None:
    """Raise `KeyPartError` unless a call has one argument under each name. `title`: the function, `"quality()"`."""
    says = "the tags name" if option == "tags" else "the key names"
    for name in names:
        parameter = parameters.get(name)
        if parameter is None or name in resources:
            given = [known for known in parameters if known not in resources and known != CALLER]
            near = difflib.get_close_matches(name, given, n=1)
            hint = f"; do you mean {{{near[0]}}}?" if near else ""
            problem = f"no such parameter (it has: {', '.join(given) or 'none'}){hint}"
        elif parameter.kind in _VARIADIC:
            problem = "many arguments under that name; name one parameter"
        elif name in unkeyed:
            problem = f"it as unkeyed: {_UNKEYED[option]}"
        else:
            continue
        raise KeyPartError(f"{says} {{{name}}}, but {title} has {problem}", parameter=name)
