"""What a function imported from one of the project's cache modules does: `from app.cache import load_user`.

The module's file is looked for beside the audited file and in the folders above, and its functions are read. If it
is not there, as for standard input, the function's name decides.
"""

from __future__ import annotations

import ast
import os
import sys
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from stampede_guard.audit.caching import locks
from stampede_guard.audit.source.builder import build
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.words import is_cachy, last, path

Seen = Literal["read", "write", "neither", "unknown"]

_LARGEST = 400_000  # bytes of a followed file
_LEVELS = 8  # folders searched upwards
_DEPTH = 3  # calls that are followed inside the getter's file
_FREES = frozenset("release unlock delete unlink".split())


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
        for found in _candidates(folder, inner):
            if dotted and os.path.isfile(found):
                return found
        above = os.path.dirname(folder)
        if above == folder:
            break
        folder = above
    return None


def _candidates(folder: str, inner: str) -> list[str]:
    """`shop/orders.py`, or `shop/shop/orders.py` of a package beside this one."""
    if not inner:
        return [os.path.join(folder, "__init__.py")]
    top = inner.partition(os.sep)[0]
    beside = os.path.join(folder, top, top)
    folders = [folder, os.path.dirname(beside)] if os.path.isdir(beside) else [folder]
    return [
        os.path.join(above, name)
        for above in folders
        for name in (f"{inner}.py", os.path.join(inner, "__init__.py"))
    ]


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
    """A followed file, or None if it cannot be read or parsed, or is too large.

    Many files follow the same ones, so the last trees are kept. What rules remember of them is not: it may depend on
    further files.
    """
    try:
        with open(place, "rb") as file:
            data = file.read(_LARGEST + 1)
    except OSError:
        return None
    module = _built(place, data) if len(data) <= _LARGEST else None
    return replace(module, memo={}) if module is not None else None


@lru_cache(maxsize=8)
def _built(place: str, data: bytes) -> Module | None:
    try:
        return build(place, data.decode("utf-8"))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
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


def elects(module: Module, function: Function, call: ast.expr) -> bool:
    """Whether the called getter gives one caller the miss, in this file or in the one that it is imported from.

    `get_cache(key, retry=False)` does not wait if the getter asks for `retry` first.
    """
    if not isinstance(call, ast.Call):
        return False
    own = module.callee(call, function)
    if own is not None:
        switches = _switches(module, own)
    elif isinstance(call.func, ast.Name):
        owner, _, name = module.imports.get(call.func.id, "").rpartition(".")
        place = follow(module, module.path, owner) if owner else None
        switches = _switches_in(place, os.stat(place).st_mtime_ns, name) if place is not None else None
    else:
        switches = None
    return switches is not None and not any(_is_off(keyword, switches) for keyword in call.keywords)


def _is_off(keyword: ast.keyword, switches: frozenset[str]) -> bool:
    return keyword.arg in switches and isinstance(keyword.value, ast.Constant) and not keyword.value.value


@lru_cache(maxsize=512)
def _switches_in(place: str, _changed: int, name: str) -> frozenset[str] | None:
    module = built(place)
    found = [f for f in module.functions if f.name == name and f.cls is None] if module is not None else []
    return _switches(module, found[0]) if module is not None and len(found) == 1 else None


def _switches(module: Module, getter: Function) -> frozenset[str] | None:
    """The parameters that a getter tests before it waits. None if it elects nobody.

    It elects if it takes a lease, frees none, and sleeps: what it took is still held when it returns.
    """
    reached = _reached(module, getter)
    called = {last(path(call.func)) for function in reached for call in function.calls}
    if "sleep" not in called or called & _FREES:
        return None
    if not any(locks.claims(module, function) for function in reached):
        return None
    return frozenset(
        test.test.id
        for test in getter.tests
        if isinstance(test, ast.If) and isinstance(test.test, ast.Name) and test.test.id in getter.parameters
    )


def _reached(module: Module, getter: Function) -> list[Function]:
    """The getter and the functions of its file that it calls."""
    found = [getter]
    newest = found
    for _ in range(_DEPTH):
        called = (module.callee(call, one) for one in newest for call in one.calls)
        newest = [one for one in dict.fromkeys(called) if one is not None and one not in found]
        found = [*found, *newest]
    return found
