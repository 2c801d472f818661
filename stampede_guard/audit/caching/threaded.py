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
from stampede_guard.audit.caching.judging.wrappers import decorator_around
from stampede_guard.audit.caching.work import calls_work
from stampede_guard.audit.source.branches import leaves
from stampede_guard.audit.source.model import Function, Module, inside, owner_class, position, returns
from stampede_guard.audit.source.origins import origin
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
# Without clocks and locks: caches that are filled in steps.
STEPS: tuple[bytes | re.Pattern[bytes], ...] = tuple(
    re.compile(rb"%b\w{0,80}(?:\.(?:append|add)\(|\[[^\n]{0,300}\] = )" % word) for word in _WORDS
)
EMPTY: tuple[bytes | re.Pattern[bytes], ...] = (
    re.compile(
        rb"if (?:not )?(?:len\()?(?:self\.|cls\.)?\w{0,80}(?:cache|CACHE|Cache)\w{0,80}"
        rb"(?:(?:\)| is None| or | and )[^\n]{0,300})?:"
    ),
)
_CONTAINERS = frozenset(("list", "dict", "set", "OrderedDict", "defaultdict", "deque"))
STORES: tuple[bytes | re.Pattern[bytes], ...] = (
    *(re.compile(rb"%b\w{0,80}\[[^\n]{0,300}\] = " % word) for word in _WORDS),
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


def threaded_decorators(module: Module) -> Iterator[tuple[Function, ast.expr, Function]]:
    """Wrappers that keep what the decorated function returned for some time, each with its look and its decorator."""
    if not any(mark in module.source for mark in _MARKS):
        return
    for function in module.functions:
        decorator = None if function.is_async else decorator_around(function)
        if decorator is None:
            continue
        found = next((look for store in function.stores if (look := _look(module, function, store))), None)
        if found is not None:
            yield function, found, decorator


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
    given = {name for outer in function.chain() if outer is not function for name in outer.parameters}
    leaves = any(_leaves(module, function, call) or path(call.func) in given for call in work)
    if guarded and (leaves or any(path(call.func) in function.parameters for call in work)):
        return asked[0]
    return asked[0] if leaves and _expires(module, function, store.value, asked[0], assigned.value) else None


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


def filled_in_steps(module: Module) -> Iterator[tuple[Function, ast.expr, str]]:
    """`if not CACHE: for row in query(): CACHE.append(row)`: each function, with its look and the name of the cache.

    Another thread looks in between, and takes a half for the whole.
    """
    for function in module.functions:
        if function.is_async or runs_alone(module, function):
            continue
        for test in function.tests:
            if not isinstance(test, ast.If):
                continue
            holder = _asked_if_empty(test.test)
            if (
                holder
                and _is_kept(module, function, holder)
                and _grows_in_steps(module, function, test, holder)
            ):
                yield function, test.test, holder
                break


def _asked_if_empty(test: ast.expr) -> str:
    """The name of the list or dict of which a test asks whether something is in it."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=asked):
            return _asked_if_empty(asked)
        case ast.BoolOp(values=[asked, *_]):
            return _asked_if_empty(asked)
        case ast.Compare(left=asked, comparators=[ast.Constant(value=0 | 1)]):
            return _asked_if_empty(asked) if isinstance(asked, ast.Call) else ""
        case ast.Call(func=ast.Name(id="len"), args=[asked]):
            return path(asked)
        case ast.Compare(left=asked, ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return _asked_if_empty(asked)
        case ast.Name() | ast.Attribute():
            return path(test)
        case _:
            return ""


def _is_kept(module: Module, function: Function, holder: str) -> bool:
    """Whether it is an empty cache of the module or of a class in the beginning, and the same one for all callers.
    Also one that the function itself publishes while it is empty.
    """
    if not is_cachy(last(holder)):
        return False
    if holder in of_the_module(function):
        return any(names == [holder] and _is_empty(value) for _node, names, value in function.bindings)
    if is_made_here(function, holder):
        return False
    cls = owner_class(function)
    made = module.values.get(holder)
    if holder.startswith(("self.", "cls.")) and cls is not None:
        found = [
            value for value, where in module.attributes.get((cls.name, last(holder)), ()) if where is None
        ]
        made = found[0] if found else None
    return _is_empty(made)


def _is_empty(made: ast.expr | None) -> bool:
    match made:
        case ast.List(elts=[]) | ast.Dict(keys=[]):
            return True
        case ast.Call(func=func, args=[] | [ast.Name()]):
            return last(path(func)) in _CONTAINERS
        case _:
            return False


def _grows_in_steps(module: Module, function: Function, test: ast.If, holder: str) -> bool:
    """Whether a miss adds one by one what it asks for elsewhere, and no lock is around it."""
    added: list[ast.expr] = [
        call
        for call in function.calls
        if isinstance(call.func, ast.Attribute)
        and call.func.attr in ("append", "add")
        and path(call.func.value) == holder
    ]
    added += [
        store for store in function.stores if path(store.value) == holder and isinstance(store.ctx, ast.Store)
    ]
    served = leaves(test.body[-1])
    steps = [
        node
        for node in added
        if position(node) > position(test)
        and inside(node, test) != served
        and _is_repeated(module, function, node)
    ]
    if not steps or _is_shared(module, function, [test.test], steps[0]):
        return False
    end = position(max(steps, key=position))
    return any(
        position(test) < position(call) < end
        and (_leaves(module, function, call) or path(call.func) == "open")
        for call in function.calls
    )


def _is_repeated(module: Module, function: Function, node: ast.AST) -> bool:
    around = (outer for outer in module.up(node) if isinstance(outer, ast.For | ast.While))
    return next((True for outer in around if inside(outer, function.node)), False)


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


def _expires(module: Module, function: Function, holder: ast.expr, look: ast.expr, value: ast.expr) -> bool:
    """Whether an entry is used for some time only: the time is stored with it, or asked before a hit."""
    made = origin(module, holder, function)
    if not is_cachy(last(path(holder))) or any(mark.decode().rstrip("(") in made for mark in KEPT):
        return True  # its class says so: TTLCache
    asked = [
        test.test
        for test in function.tests
        if isinstance(test, ast.If) and (position(test) >= position(look) or inside(look, test.test))
    ]
    return any(_CLOCK.search(text_of(node).replace("_", " ")) for node in (value, *asked))
