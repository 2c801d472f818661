"""Plain functions that look into a dict, ask elsewhere, and store: threads that miss together all ask."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching import locks
from stampede_guard.audit.caching.dictcaches import (
    KEPT,
    RENEWED,
    is_cache,
    is_made_here,
    looks,
    of_the_module,
    renews,
    serves,
    tells_time,
)
from stampede_guard.audit.caching.fills import decorator_around
from stampede_guard.audit.caching.work import calls_work
from stampede_guard.audit.source.model import Function, Module, inside, position, returns
from stampede_guard.audit.source.programs import runs_alone
from stampede_guard.audit.source.words import is_cachy, last, names_in, path, text_of

# Calls that surely leave the process.
_LEAVES = re.compile(
    r"(?:^|\.)(?:requests|httpx|urllib|session|http|client|api|db|conn|cursor|objects|query|llm|openai)\w*(?:\(\))?\."
    r"|urlopen|\.execute\b|\.scalars?\b|(?:^|\.)(?:_?fetch|_?download|_?query|_?request|_?probe|_?run_probe)\w*$|boto3",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"\b(?:time|monotonic|now|utcnow|ttl|expir\w*|timestamp|cached_at|fetched_at|age|deadline)\b", re.I
)
# In a file without one of these, no such function is found.
LOCKS_OR_CLOCKS: tuple[bytes, ...] = (b"Lock(", b"time.time(", b"monotonic(", b".now(", b"utcnow(", *KEPT)
_MARKS = tuple(mark.decode() for mark in LOCKS_OR_CLOCKS)
_WORDS = (b"cache", b"Cache", b"CACHE")
STORES: tuple[bytes | re.Pattern[bytes], ...] = (
    *(re.compile(rb"%b\w*\[[^\n]*\] = " % word) for word in _WORDS),
    *RENEWED,
    *KEPT,
)


def threaded_fills(module: Module) -> Iterator[tuple[Function, ast.expr]]:
    """The functions, each with its look."""
    if not any(mark in module.source for mark in _MARKS):
        return
    for function in module.functions:
        if function.is_async or decorator_around(function) is not None or runs_alone(module, function):
            continue
        found = next((look for store in function.stores if (look := _look(module, function, store))), None)
        found = found or _look_at_value(module, function)
        if found is not None:
            yield function, found


def _look(module: Module, function: Function, store: ast.Subscript) -> ast.expr | None:
    holder = path(store.value)
    assigned = module.parents.get(store)
    if not isinstance(store.ctx, ast.Store) or not isinstance(assigned, ast.Assign):
        return None
    if not is_cache(module, function, store.value) or is_made_here(function, holder):
        return None
    if is_cachy(last(holder)) and "cache" not in holder.lower():
        return None
    asked = [look for look in looks(function, holder, store.slice) if position(look) < position(store)]
    if not asked or _is_shared(module, function, asked, store):
        return None
    work = _work(function, asked[0], store, assigned.value)
    if not work:
        return None
    guards = [
        node for node in locks.locks_of(module, function) if not any(inside(call, node) for call in work)
    ]
    guarded = any(inside(store, node) for node in guards) and any(inside(asked[0], node) for node in guards)
    leaves = any(_LEAVES.search(path(call.func)) for call in work)
    if guarded and (leaves or any(path(call.func) in function.parameters for call in work)):
        return asked[0]
    return asked[0] if leaves and _expires(function, store.value, asked[0], assigned.value) else None


def _look_at_value(module: Module, function: Function) -> ast.expr | None:
    """One value that is renewed after some time: `if _rates is None or time() > _until: _rates = get(...).json()`."""
    kept = of_the_module(function) | {
        name
        for _node, names, _value in function.bindings
        for name in names
        if name.startswith(("self.", "cls.")) and not is_made_here(function, name)
    }
    for node, names, value in function.bindings if kept else ():
        stored = kept & {*names}
        if not stored or isinstance(value, ast.Constant):
            continue
        asked = [
            test.test
            for test in function.tests
            if isinstance(test, ast.If)
            and position(test) < position(node)
            and tells_time(test.test)
            and (
                serves(test, stored)
                or renews(test, stored, node)
                or _is_due(function, test, stored, node, kept)
            )
        ]
        if not asked or _is_shared(module, function, asked, node):
            continue
        if any(_leaves(module, function, call) for call in _work(function, asked[0], node, value)):
            return asked[0]
    return None


def _is_due(function: Function, test: ast.If, stored: set[str], node: ast.AST, kept: set[str]) -> bool:
    """`if time() > _until: _rates = ...; _until = ...`, and `return _rates`: only the time decides."""
    if not any(inside(node, statement) for statement in test.body):
        return False
    moved = {
        name
        for where, names, _value in function.bindings
        if any(inside(where, statement) for statement in test.body)
        for name in names
    }
    served = any(stored & names_in(end.value) for end in returns(function))
    return served and bool(kept & moved & names_in(test.test) - stored)


def _leaves(module: Module, function: Function, call: ast.Call) -> bool:
    """Whether a call leaves the process, itself or in a function of this file."""
    if _LEAVES.search(path(call.func)):
        return True
    callee = module.callee(call, function)
    return callee is not None and any(_LEAVES.search(path(inner.func)) for inner in callee.calls)


def _is_shared(module: Module, function: Function, asked: list[ast.expr], store: ast.AST) -> bool:
    """Whether callers who miss wait for the first one."""
    around = [node for scope in function.chain() for node in locks.locks_of(module, scope)]
    if any(inside(store, node) and any(inside(look, node) for look in asked) for node in around):
        return True
    if any(position(claim) < position(store) for claim in locks.claims(module, function)):
        return True
    return locks.joins_a_flight(module, function) or locks.called_under_lock(module, function)


def _work(function: Function, look: ast.expr, store: ast.AST, value: ast.expr) -> list[ast.Call]:
    """The calls that made the stored value, after the look."""
    feeding, before = names_in(value), set[str]()
    while feeding - before:
        name = (feeding - before).pop()
        before.add(name)
        for node, names, source in function.bindings:
            if name in names and position(look) < position(node) < position(store):
                feeding |= names_in(source)
    sources = [
        value,
        *(v for n, names, v in function.bindings if feeding & {*names} and position(n) > position(look)),
    ]
    return [
        call
        for call in function.calls
        if position(look) < position(call) <= (store.end_lineno or 0, 10_000)  # type: ignore[attr-defined]
        and any(inside(call, source) for source in sources)
        and calls_work(call)
    ]


def _expires(function: Function, holder: ast.expr, look: ast.expr, value: ast.expr) -> bool:
    """Whether an entry is used for some time only: the time is stored with it, or asked before a hit."""
    if not is_cachy(last(path(holder))):
        return True  # its class says so: TTLCache
    asked = [
        test.test
        for test in function.tests
        if isinstance(test, ast.If) and (position(test) >= position(look) or inside(look, test.test))
    ]
    return any(_CLOCK.search(text_of(node).replace("_", " ")) for node in (value, *asked))
