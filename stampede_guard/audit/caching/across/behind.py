"""Decorators of the project that keep results in a cache: functions, classes, methods of an object of the project.

They are followed to the file that defines them, also through files that only pass them on.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from functools import lru_cache

from stampede_guard.audit.caching import locks
from stampede_guard.audit.caching.fills import accesses_of, fills
from stampede_guard.audit.caching.imported import built, follow
from stampede_guard.audit.caching.judging.wrappers import decorator_around
from stampede_guard.audit.caching.threaded import threaded_decorators
from stampede_guard.audit.source.decorations import Decoration, decorations
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.words import is_cachy, last, path

_READS = ("read", "read-many", "exists")
_DECORATOR_HOPS = 2  # `def cached(): return cached_for(60)`
_FILES = 3  # between the decorator and its definition
_OF_FLASK = frozenset(("cached", "memoize"))


def unlocked_uses(module: Module) -> Iterator[tuple[Decoration, str]]:
    """The decorations with such a decorator, if nothing in it shows a lock, each with the decorator's name."""
    for decoration in decorations(module):
        target = decoration.call.func if decoration.call is not None else decoration.node
        name = last(path(target))
        if not isinstance(target, ast.Name | ast.Attribute) or not is_cachy(name):
            continue
        written = path(target)
        if written.partition(".")[0] not in module.imports:
            unlocked = _keeps_by_name(module, written)
        else:
            found = defined(module, module.resolve(target))
            unlocked = found is not None and _is_unlocked(found[0], os.stat(found[0]).st_mtime_ns, found[1])
        if unlocked:
            yield decoration, name


def defined(module: Module, qualified: str) -> tuple[str, str] | None:
    """The file of the project that defines a name, and the name there: `cached`, or `store.cached`."""
    if qualified.partition(".")[0] in sys.stdlib_module_names:
        return None
    file, name = module.path, qualified
    for _ in range(_FILES):
        owner, place, parts = name, None, list[str]()
        while place is None and len(parts) < 2 and owner.strip("."):
            above, _dot, part = owner.rpartition(".")
            owner = above or ("." if owner.startswith(".") else "")
            parts.insert(0, part)
            place = follow(module, file, owner) if owner else None
        if place is None:
            return None
        further = _imports(place, os.stat(place).st_mtime_ns).get(parts[0])
        if further is None:
            return place, ".".join(parts)
        file, name = place, ".".join((further, *parts[1:]))
    return None


@lru_cache(maxsize=256)
def _imports(place: str, _changed: int) -> dict[str, str]:
    module = built(place)
    return dict(module.imports) if module is not None else {}


@lru_cache(maxsize=512)
def _is_unlocked(place: str, _changed: int, name: str) -> bool:
    module = built(place)
    return module is not None and _keeps_by_name(module, name)


def _keeps_by_name(module: Module, name: str) -> bool:
    """`cached`, a function or a class of the file, or `store.cached`, a method of an object that the file makes."""
    owner, _dot, attribute = name.rpartition(".")
    if owner:
        made = module.values.get(owner)
        cls = path(made.func) if isinstance(made, ast.Call) else owner
        known = [f for f in module.functions_named(attribute) if f.cls is not None and f.cls.name == cls]
    else:
        known = [f for f in module.functions_named(name) if f.cls is None and f.outer is None]
        known = known or [
            f for f in module.functions_named("__call__") if f.cls is not None and f.cls.name == name
        ]
    return len(known) == 1 and (
        _keeps(module, known[0], _DECORATOR_HOPS)
        or (known[0].name == "__call__" and _wraps(module, known[0]))
    )


def _wraps(module: Module, call: Function) -> bool:
    """A class whose object replaces the function: its `__call__` asks a cache, and calls `self.function`."""
    return (
        _asks(module, call)
        and any(path(made.func).startswith("self.") for made in call.calls)
        and not _holds_back(module, call)
    )


def _keeps(module: Module, decorator: Function, hops: int) -> bool:
    """Whether a wrapper in it asks a cache before it calls what it decorates, and nothing holds others back."""
    inner = [function for function in module.functions if decorator in function.chain()]
    if any(_holds_back(module, function) for function in inner):
        return False
    if any(_is_of_a_library(call) for function in inner for call in function.calls):
        return True
    for function in inner:
        if function is not decorator and decorator_around(function) is not None:
            if _asks(module, function):
                return True
    if any(_hands_over(module, function) for function in inner if function is not decorator):
        return True
    if any(function in inner for function, _look, _decorator in threaded_decorators(module)):
        return True
    called = [module.callee(call, decorator) for call in decorator.calls] if hops else []
    return any(
        made is not None and made is not decorator and _keeps(module, made, hops - 1) for made in called
    )


def _hands_over(module: Module, wrapper: Function) -> bool:
    """Whether a wrapper gives what it wraps to a function of the file that fills a cache with it."""
    if decorator_around(wrapper) is None:
        return False
    wrapped = {name for outer in wrapper.chain() if outer is not wrapper for name in outer.parameters}
    called = {
        made
        for call in wrapper.calls
        if any(isinstance(given, ast.Name) and given.id in wrapped for given in call.args)
        and (made := module.callee(call, wrapper)) is not None
    }
    return any(fill.function in called and _calls_a_parameter(fill.function) for fill in fills(module))


def _calls_a_parameter(function: Function) -> bool:
    return any(
        isinstance(call.func, ast.Name) and call.func.id in function.parameters for call in function.calls
    )


def _asks(module: Module, wrapper: Function) -> bool:
    """Whether it reads a cache of its own. A cache that its callers pass to it is shared by nobody else."""
    given = wrapper.parameters - {"self", "cls"}
    passed = given | {
        name
        for _node, names, value in wrapper.bindings
        if isinstance(value, ast.Call) and path(value.func).partition(".")[0] in given
        for name in names
    }
    return any(
        access.what in _READS and access.receiver.partition(".")[0] not in passed
        for access in accesses_of(module, wrapper)
    )


def _holds_back(module: Module, function: Function) -> bool:
    return bool(locks.locks_of(module, function) or locks.claims(module, function)) or locks.joins_a_flight(
        module, function
    )


def _is_of_a_library(call: ast.Call) -> bool:
    """Django's `cache_page(60)`, Flask-Caching's `cache.cached(60)`: neither has a lock."""
    name = last(path(call.func))
    of_flask = isinstance(call.func, ast.Attribute) and is_cachy(last(path(call.func.value)))
    return name.startswith("cache_page") or (of_flask and name in _OF_FLASK)
