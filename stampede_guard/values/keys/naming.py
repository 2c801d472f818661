"""The name of a function in keys, events and switches: its module and qualified name, or the value of `name=`.

`__main__` cannot be a name, because every script has it:

python -m shop.load       `__spec__` gives the module: `shop.load.read`
python load.py            the file: `load@1f0c9a2b3d4e.read`, with a digest of its absolute path. Two scripts called
                          load.py in two folders share nothing. The workers of one script share everything, also those
                          that multiprocessing starts, where the module is called `__mp_main__`
-c, stdin, a prompt, a    nothing distinguishes it from others. It stays `__main__.read`, which is enough within
notebook                  one process; `is_nameless` reports it, and a store that other processes share refuses it
"""

from __future__ import annotations

import functools
import os
import re
import sys
import unicodedata
from collections.abc import Callable, Mapping
from pathlib import PurePath
from typing import Any

from stampede_guard.errors import KeyPartError
from stampede_guard.values.parts.parts import digest

__all__ = [
    "DOCTOR",
    "PROGRAMS",
    "checked_name",
    "full_name",
    "innermost",
    "is_nameless",
    "module_of",
    "program_name",
]

DOCTOR = "stampede-guard-doctor"
"""Prefix of the keys that `stampede-guard doctor` writes to test a store."""
PROGRAMS = ("__main__", "__mp_main__")
_RESERVED = re.compile(
    rf"""
    (?P<keys> = | {DOCTOR})      # guard.get_or_compute("report") is =report; the doctor uses such keys
    | (?P<tags> \#)              # the version of a tag
    | (?P<http> http\d*(?: : | $))  # what the HTTP cache stores, and its switch
    | (?P<modes> \* | modes(?: : | $))  # an operator's switches
    """,
    re.VERBOSE,
)
_WHOSE = {
    "keys": "the keys of get_or_compute and single",
    "tags": "tags",
    "http": "the HTTP cache",
    "modes": "the switches of modes",
}
_MOST_WRAPPERS = 100


def innermost(function: Any) -> Any:
    """The function inside all wrappers (`functools.wraps`) and partials."""
    for _ in range(_MOST_WRAPPERS):
        if isinstance(function, functools.partial):
            function = function.func
        elif callable(getattr(function, "__wrapped__", None)):
            function = function.__wrapped__
        else:
            break
    return function


def full_name(function: Callable[..., Any]) -> str:
    """Module and qualified name. Raises `KeyPartError` for a function without a name, such as a lambda."""
    inner = innermost(function)
    qualname = getattr(inner, "__qualname__", None)
    if not isinstance(qualname, str) or not qualname or qualname.endswith("<lambda>"):
        kind = "lambda" if isinstance(qualname, str) and qualname else type(inner).__qualname__
        raise KeyPartError(f"a {kind} has no name of its own to begin a key with; give it one: name='...'")
    module = module_of(inner)
    if module is None:
        raise KeyPartError(
            f"{qualname}() belongs to no module, so there is no name to begin a key with; give it one: name='...'"
        )
    return checked_name(f"{module}.{qualname}")


def checked_name(name: str) -> str:
    """The name as keys contain it: NFC (Unicode Annex 15), so that two spellings of one text are one name.

    Raises `KeyPartError` for the library's reserved names, and for control characters.
    """
    name = unicodedata.normalize("NFC", name)
    if not name.strip():
        raise KeyPartError(
            f"name={name!r} is empty: write a name such as name='shop.quality', or leave name= out",
            parameter="name",
        )
    if any(unicodedata.category(character) in ("Cc", "Cs") for character in name):
        raise KeyPartError(
            f"name={name!r} has control characters; write letters, digits, dots and dashes: name='shop.quality'",
            parameter="name",
        )
    reserved = _RESERVED.match(name)
    if reserved is not None:
        begin = reserved[0]
        raise KeyPartError(
            f"name={name!r} begins with {begin!r}, which is kept for {_WHOSE[str(reserved.lastgroup)]}. Write a name "
            f"that begins with something else, such as name='shop.quality'",
            parameter="name",
        )
    return name


def is_nameless(function: Callable[..., Any]) -> bool:
    """Whether it was defined at a prompt, in a notebook or with -c. Other processes may have another function of
    this name.
    """
    inner = innermost(function)
    return getattr(inner, "__module__", None) in PROGRAMS and _file(inner) is None


def module_of(thing: Any) -> str | None:
    """The name of the module of a function or class. `__main__` is replaced by the program's name, if it has one."""
    module = getattr(thing, "__module__", None)
    if not isinstance(module, str) or not module:
        return None
    if module not in PROGRAMS:
        return module
    file = _file(thing)
    return "__main__" if file is None else program_name({**_globals(thing), "__file__": file})


def program_name(names: Mapping[str, Any]) -> str:
    """The name of the program whose `__main__` has these globals. `__main__` if nothing distinguishes it."""
    file = names.get("__file__")
    if not isinstance(file, str):
        return "__main__"
    name = getattr(names.get("__spec__"), "name", None)
    if isinstance(name, str) and name not in PROGRAMS:
        return name
    if getattr(sys, "frozen", False):
        file = sys.executable  # a program that is unpacked for each run has another path each time
    return f"{PurePath(file).stem}@{digest(os.path.abspath(file), digits=12)}"


def _file(function: Any) -> str | None:
    """The file of the program that contains a function of `__main__`; None if there is none, as with -c."""
    file = _globals(function).get("__file__")
    code = getattr(function, "__code__", None)
    if code is not None and code.co_filename.startswith("<"):
        return None
    return file if isinstance(file, str) else None


def _globals(function: Any) -> Mapping[str, Any]:
    own = getattr(function, "__globals__", None)
    if own is not None and own.get("__name__") in PROGRAMS:
        found: Mapping[str, Any] = own
        return found
    return vars(sys.modules[function.__module__]) if function.__module__ in sys.modules else {}
