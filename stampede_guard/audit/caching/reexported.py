"""Decorators that reach a file through the project: `from shop import cache`, where `shop` imports it from cashews.

The names are followed from file to file, as far as the project's folders show. A subclass of a library's decorator
is that decorator, unless it has a `__call__` or `decorator` of its own.
"""

from __future__ import annotations

import ast
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache

from stampede_guard.audit.caching.imported import built, follow
from stampede_guard.audit.source.decorations import Decoration, decorations
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.origins import annotated, origin
from stampede_guard.audit.source.words import path

# Words of a file that may decorate with such a name.
HINTS = (
    b"@cache(",
    b"@cached(",
    b"@cache.",
    b"@multi_cached(",
    b".cache(",
    b".cached(",
    b"cache as ",
    b"cached as ",
)

_NAMES_A_STORE = re.compile(r"redis|cache|memc|valkey|client", re.IGNORECASE)
_HOPS = 4  # files between the decorator and the library
_OWN_CALL = frozenset(("__call__", "decorator", "__new__"))
_LIBRARIES = ("aiocache", "cashews", "django", "flask_caching", "flask_cache", "cachelib")


def library_decorations(module: Module, library: str) -> Iterator[Decoration]:
    """The decorators of a library: imported from it here, or through other files of the project."""
    for decoration in decorations(module):
        if _is_of(decoration.name, library) or _is_of(decoration.owner, library):
            yield decoration
        elif decoration.call is not None and _is_of(found := _followed(module, decoration.call), library):
            yield replace(decoration, name=found, owner=found.rpartition(".")[0])


def is_reexported(module: Module, call: ast.Call | None) -> bool:
    """Whether the decorator comes from another file of the project, which may have set it up."""
    return call is not None and bool(_followed(module, call))


def library_name(module: Module, node: ast.expr) -> str:
    """The qualified name of an expression that another file of the project imports from a library, else ""."""
    return _follow(module, path(node))


def is_of_own_class(module: Module, node: ast.expr) -> bool:
    """Whether the project makes the object from a class of its own, here or in another file."""
    name, file = module.resolve(node), module.path
    made = origin(module, node, None).removesuffix("()")
    own = {cls.name: _inherited(module, cls) for cls in module.classes}
    if made in own:
        return not _root_of(own, made)
    for _ in range(_HOPS):
        name, file = _step(module, name, file)
        if name.endswith("()") and "." not in name:
            known = name.removesuffix("()") in _classes(file, os.stat(file).st_mtime_ns)
            name = _through_class(name, file)
            if not name:
                return known
        if not name or name.partition(".")[0] in (*_LIBRARIES, *sys.stdlib_module_names):
            return False
    return False


def made_elsewhere(module: Module, made: str) -> str:
    """The constructor of an object that a file of the project makes: `shop.stores.redis_client`,
    `shop.stores.get_client()` -> "redis.Redis()".
    """
    name = made.removesuffix("()")
    root = name.lstrip(".").partition(".")[0]
    if (
        not name
        or not _NAMES_A_STORE.search(name)
        or root not in _roots(module)
        or root in sys.stdlib_module_names
    ):
        return ""
    owner, _dot, last = name.rpartition(".")
    for _ in range(_HOPS):
        place = follow(module, module.path, owner)
        if place is None:
            return ""
        known = _makers(place, os.stat(place).st_mtime_ns).get(last, "")
        if known.endswith("()") or not known:
            return known
        owner, _dot, last = known.rpartition(".")
    return ""


def _roots(module: Module) -> set[str]:
    known: set[str] | None = module.memo.get("roots")
    if known is None:
        known = {name.lstrip(".").partition(".")[0] for name in module.imports.values()}
        module.memo["roots"] = known
    return known


@lru_cache(maxsize=256)
def _makers(place: str, changed: int) -> dict[str, str]:
    """The names of a file that hold a client, and the functions that return one."""
    module = built(place)
    if module is None:
        return {}
    found = dict(_exports(place, changed))
    for function in module.functions:
        if function.cls is None and function.outer is None and _NAMES_A_STORE.search(function.name):
            found[function.name] = "" if function.is_async else _returned(module, function)
    return found


def _returned(module: Module, function: Function) -> str:
    said = annotated(module, function.node.returns)
    if said:
        return f"{said}()"
    ends = [node.value for node in ast.walk(function.node) if isinstance(node, ast.Return) and node.value]
    made = {origin(module, value, function) for value in ends}
    return made.pop() if len(made) == 1 else ""


def _is_of(name: str, library: str) -> bool:
    return name.startswith(f"{library}.")


def _followed(module: Module, call: ast.Call) -> str:
    known: dict[ast.Call, str] = module.memo.setdefault("reexported", {})
    if call not in known:
        known[call] = _follow(module, path(call.func))
    return known[call]


def _follow(module: Module, written: str) -> str:
    root, _, attributes = written.partition(".")
    name = module.imports.get(root, "")
    if not name or name.lstrip(".").partition(".")[0] in (*_LIBRARIES, *sys.stdlib_module_names):
        return ""
    name, file = f"{name}.{attributes}" if attributes else name, module.path
    for _ in range(_HOPS):
        name, file = _step(module, name, file)
        name = _through_class(name, file)
        if name.partition(".")[0] in _LIBRARIES:
            return name
        if not name:
            return ""
    return ""


def _through_class(name: str, file: str) -> str:
    """`Own().cached` is what its base class makes it, if the file defines the class."""
    made, called, rest = name.partition("()")
    if not called or "." in made:
        return name
    base = _root_of(_classes(file, os.stat(file).st_mtime_ns), made)
    return f"{base}(){rest}" if base else ""


def _root_of(classes: dict[str, str], name: str) -> str:
    """The first base that is none of these classes, or "" if there is none."""
    for _ in range(_HOPS):
        if name not in classes:
            return name
        name = classes[name]
    return ""


def _step(module: Module, name: str, file: str) -> tuple[str, str]:
    """What a qualified name is in the file that defines it, and that file. Both are empty if it is not found."""
    owner, rest = name, ""
    for _ in range(2):  # `shop.cache`, and `shop.cache.early`
        owner, _dot, last = owner.rpartition(".")
        place = follow(module, file, owner)
        if place is not None:
            known = _exports(place, os.stat(place).st_mtime_ns).get(last, "")
            return (f"{known}{rest}", place) if known else ("", "")
        rest = f".{last}{rest}"
    return "", ""


@lru_cache(maxsize=256)
def _exports(place: str, _changed: int) -> dict[str, str]:
    """Where the names of a file come from: an import, a constructor, or the base of a class."""
    module = built(place)
    if module is None:
        return {}
    found = dict(module.imports)
    for name, value in module.values.items():
        found[name] = origin(module, value, None)
    for cls in module.classes:
        found[cls.name] = _inherited(module, cls)
    for function in module.functions:
        if function.cls is None and function.outer is None:
            found[function.name] = ""
    return found


@lru_cache(maxsize=256)
def _classes(place: str, _changed: int) -> dict[str, str]:
    """The classes of a file, each with its only base."""
    module = built(place)
    return {cls.name: _inherited(module, cls) for cls in module.classes} if module is not None else {}


def _inherited(module: Module, cls: ast.ClassDef) -> str:
    own = {node.name for node in cls.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    return "" if own & _OWN_CALL or len(cls.bases) != 1 else module.resolve(cls.bases[0])
