"""Helpers of the project that fill a cache with what a given function computes: `get_or_run(key, load, day)`.

The helper is reported where it is defined. Here are its uses, as those of a decorator.
"""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import lru_cache

from stampede_guard.audit.caching import locks
from stampede_guard.audit.caching.across.behind import defined
from stampede_guard.audit.caching.across.hops import own_fills, split_fills
from stampede_guard.audit.caching.fills import accesses_of, fills
from stampede_guard.audit.caching.imported import built, followed_function
from stampede_guard.audit.caching.work import calls_work
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.words import is_cachy, last, path

# Names of such helpers: `get_or_compute`, `cached_call`, `with_cache`.
_NAMES = (
    r"_or_(?:set|comput|calculat|run|fetch|load|call|generat|build|execut|retriev|query|refresh|ask|make|request)",
    r"(?:through|with|via)_cache",
    r"cached?_(?:call|run|fetch)",
    r"\bremember",
    # Any other: the helper's body decides.
    r"cached?_(?!page|control|clear|key|delete|invalidate|(?:info|dir|path|name|size|property|readonly|contains)(?![a-z]))\w",
    r"(?<!lru)_cached?\b",
)
_NAME = re.compile("|".join(_NAMES))
_CALLED = re.compile(rf"(?:{'|'.join(_NAMES)})\w*[\s\\]*\(")
# The same in bytes. Each begins with literal text, which is fast to search for, so some let a little more through.
HINT = tuple(
    re.compile(rb"%b\w{0,80}\((?!\))" % name)
    for name in (
        _NAMES[0].encode(),
        *(b"through_cache", b"with_cache", b"via_cache", b"remember"),
        *(name.encode() for name in _NAMES[2:5:2]),
        rb"_cache(?<!lru_cache)d?\b",
    )
)
_HOPS = 2  # `get_tmp(key, load)` passes both to `get_or_run`


def given_fills(module: Module) -> Iterator[tuple[ast.Call, Function, str, list[tuple[Module, Function]]]]:
    """The calls, each with its function, the helper's name, and what computes, as far as it is seen."""
    for function in module.functions_with(_CALLED):
        for call in function.calls:
            name = last(path(call.func))
            if _NAME.search(name) and name != function.name and (given := _given(module, function, call)):
                if _is_open(module, function, call):
                    yield call, function, name, given


def _given(module: Module, function: Function, call: ast.Call) -> list[tuple[Module, Function]]:
    """The functions among the arguments, without those that only read or write a cache for the helper."""
    found: list[tuple[Module, Function] | None] = []  # None: a function from elsewhere
    for argument in (*call.args, *(keyword.value for keyword in call.keywords)):
        name = path(argument)
        if isinstance(argument, ast.Lambda) and calls_work(argument.body):
            found.append((module, function))
        elif isinstance(argument, ast.Name) and name not in function.parameters:
            own = [made for made in module.functions_named(name) if made.outer is function]
            own = own or [made for made in module.functions_named(name) if made.outer is None]
            if len(own) == 1:
                found.append((module, own[0]))
            elif name in module.imports and name.lstrip("_")[:1].islower():
                found.append(followed_function(module, name))
        elif name.startswith("self.") and (own := module.functions_named(last(name))):
            found.append((module, own[0]))
    return [made for made in found if made is not None and _computes(*made)]


def _computes(module: Module, function: Function) -> bool:
    """Whether it asks anything else than a cache."""
    return not accesses_of(module, function) and any(
        calls_work(call) and not any(is_cachy(part) for part in path(call.func).split("."))
        for call in function.calls
    )


def _is_open(module: Module, function: Function, call: ast.Call) -> bool:
    """Whether the helper is a function of the project that computes by its argument, without a lock."""
    own = module.callee(call, function)
    if own is not None:
        return _computes_what_is_given(module, own, _HOPS)
    if path(call.func).partition(".")[0] not in module.imports:
        return False
    found = defined(module, module.resolve(call.func))
    return found is not None and _is_open_there(found[0], os.stat(found[0]).st_mtime_ns, found[1])


@lru_cache(maxsize=512)
def _is_open_there(place: str, _changed: int, name: str) -> bool:
    module = built(place)
    known = [f for f in module.functions_named(name) if f.cls is None] if module is not None else []
    return module is not None and len(known) == 1 and _computes_what_is_given(module, known[0], _HOPS)


def _computes_what_is_given(module: Module, helper: Function, hops: int) -> bool:
    filled = {
        fill.function
        for fill in (*fills(module), *split_fills(module), *own_fills(module))
        if fill.decorator is None
    }
    called = any(
        isinstance(call.func, ast.Name) and call.func.id in helper.parameters for call in helper.calls
    )
    passed = [made for call in helper.calls if (made := _passed_on(module, helper, call)) is not None]
    if any(locks.locks_of(module, made) or locks.claims(module, made) for made in passed):
        return False  # it computes under a lock, and by itself only if the lock fails
    if helper in filled and called:
        return True
    return hops > 0 and any(_computes_what_is_given(module, made, hops - 1) for made in passed)


def _passed_on(module: Module, helper: Function, call: ast.Call) -> Function | None:
    """The function of this file that gets a parameter of the helper."""
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if not any(isinstance(argument, ast.Name) and argument.id in helper.parameters for argument in given):
        return None
    made = module.callee(call, helper)
    return made if made is not helper else None
