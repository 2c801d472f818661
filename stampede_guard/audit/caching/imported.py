"""What a function imported from one of the project's cache modules does: `from app.cache import load_user`.

The module's file is looked for beside the audited file and in the folders above, and its functions are read. If it
is not there, as for standard input, the function's name decides.
"""

from __future__ import annotations

import ast
import os
import sys
from functools import lru_cache
from typing import Literal

from stampede_guard.audit.source.builder import build
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.words import is_cachy, last

Seen = Literal["read", "write", "neither", "unknown"]

_LARGEST = 400_000  # bytes of a followed file
_LEVELS = 8  # folders searched upwards


def cache_module(module: Module, name: str) -> str:
    """The qualified name of a bare name imported from a cache module, else ""."""
    qualified = module.imports.get(name, "")
    return qualified if is_cachy(last(qualified.rpartition(".")[0])) else ""


def seen_in(module: Module, qualified: str, methods: dict[str, Literal["read", "write"]]) -> Seen:
    """What the imported function does to a cache, as far as its file shows."""
    place = follow(module, module.path, qualified.rpartition(".")[0])
    if place is None:
        return "unknown"
    return _roles(place, os.stat(place).st_mtime_ns, tuple(methods.items())).get(last(qualified), "unknown")


def followed_function(module: Module, name: str) -> tuple[Module, Function] | None:
    """The function behind a bare name that is imported from a file of the project, and that file."""
    owner, _, own = module.imports.get(name, "").rpartition(".")
    if owner.lstrip(".").partition(".")[0] in sys.stdlib_module_names:
        return None
    place = follow(module, module.path, owner)
    if place is None:
        return None
    other = built(place)
    found = [f for f in other.functions if f.name == own and f.cls is None] if other is not None else []
    return (other, found[0]) if other is not None and len(found) == 1 else None


def follow(module: Module, of: str, dotted: str) -> str | None:
    """The file of a module that a file imports. The module remembers it: its findings depend on that file."""
    place = place_of(of, dotted)
    followed: dict[tuple[str, str], str | None] = module.memo.setdefault("followed", {})
    followed[of, dotted] = place
    return place


def place_of(of: str, dotted: str) -> str | None:
    """The file of a module that a file imports. Two dots and more go up."""
    bare = dotted.lstrip(".")
    folder = os.path.dirname(os.path.abspath(of))
    levels = len(dotted) - len(bare)
    for _ in range(levels - 1):
        folder = os.path.dirname(folder)
    inner = bare.replace(".", os.sep)
    for _ in range(1 if levels else _LEVELS):
        for candidate in (f"{inner}.py", os.path.join(inner, "__init__.py")) if bare else ("__init__.py",):
            found = os.path.join(folder, candidate)
            if dotted and os.path.isfile(found):
                return found
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    return None


@lru_cache(maxsize=256)
def _roles(
    place: str, _changed: int, methods: tuple[tuple[str, Literal["read", "write"]], ...]
) -> dict[str, Seen]:
    """What each function of a file does: it reads, it writes, or neither."""
    module = built(place)
    if module is None:
        return {}
    table = dict(methods)
    return {function.name: _role(function, table) for function in module.functions if function.cls is None}


def built(place: str) -> Module | None:
    """A followed file, or None if it cannot be read or parsed, or is too large."""
    try:
        with open(place, "rb") as file:
            data = file.read(_LARGEST + 1)
        return None if len(data) > _LARGEST else build(place, data.decode("utf-8"))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _role(function: Function, methods: dict[str, Literal["read", "write"]]) -> Seen:
    """One that does both fills the cache itself: it is judged in its own file."""
    done = {
        methods[call.func.attr]
        for call in function.calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in methods and call.args
    }
    if done == {"read"}:
        return "read"
    return "write" if done == {"write"} else "neither"
