"""Coroutines that look into a dict, await, and store into it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TypeGuard

from stampede_guard.audit.caching import locks
from stampede_guard.audit.caching.keys import same_key
from stampede_guard.audit.caching.receivers import kind
from stampede_guard.audit.source.model import Function, Module, inside, owner_class, position
from stampede_guard.audit.source.words import is_cachy, last, names_in, path, text_of, words

# Objects that live for one run or one request: the last word of their class, and what they are made with.
# Dicts that are caches whatever they are called: their constructors.
KEPT = (b"TTLCache(", b"LRUCache(", b"diskcache.")
# Values that are renewed after some time: with the time, or named after what they are.
RENEWED = (
    re.compile(rb"\bglobal \w+(?:, |\s+global )\w"),
    re.compile(rb"\bglobal [\w ,]*(?:cache|CACHE|memo)"),
    re.compile(rb"(?:self|cls)\.\w+ = [^\n]*(?:time\.time|monotonic|now)\("),
)
_CLOCK = re.compile(
    r"\b(?:time|monotonic|now|utcnow|ttl|expir\w*|expires|timestamp|deadline|refreshed|fetched)\b", re.I
)
_VALID = frozenset("valid fresh stale expired loaded current".split())
_VALUE = re.compile(r"cache|memo", re.IGNORECASE)
_ONE_RUN = frozenset(
    "importer exporter migration job run runner request context session transaction loader parser".split()
)
_ONE_REQUESTS = frozenset("request session db context ctx info uow transaction".split())
# Objects that outlive requests: `self.bot.cache`. Of other objects nobody knows how long they live.
_LIVES_LONG = frozenset("app application bot server state hass core client pool".split())
# Holders that belong to one request: `request.state.cache`, `g.cache`, `info.context.cache`.
_OF_A_REQUEST = frozenset("request req state context ctx g scope info interaction".split())


def dict_fills(module: Module) -> Iterator[tuple[Function, ast.AST]]:
    refreshed = set[ast.ClassDef | None]()
    for function in module.functions:
        if not function.is_async or not function.awaits:
            continue
        value = _value_fill(module, function)
        if value is None and (refresh := _refresh(module, function)) is not None:
            cls = owner_class(function)
            value = refresh if cls not in refreshed else None
            refreshed.add(cls)
        if value is not None:
            yield function, value
            continue
        for store in function.stores:
            found = _fill(module, function, store)
            if found is not None:
                yield function, found
                break


def is_cache(module: Module, function: Function, holder: ast.expr) -> bool:
    """Whether a dict is a cache: by its name, else by its constructor."""
    return is_cachy(last(path(holder))) or (
        any(mark.decode() in module.source for mark in KEPT) and kind(module, holder, function) == "cache"
    )


def _fill(module: Module, function: Function, store: ast.Subscript) -> ast.AST | None:
    holder = path(store.value)
    assigned = module.parents.get(store)
    if (
        not isinstance(store.ctx, ast.Store)
        or not isinstance(assigned, ast.Assign)
        or not is_cache(module, function, store.value)
    ):
        return None
    if is_made_here(function, holder) or isinstance(assigned.value, ast.Constant):
        return None
    look = next(
        (look for look in looks(function, holder, store.slice) if position(look) < position(store)), None
    )
    if look is None or not _awaits_value(module, function, look, store, assigned.value):
        return None
    around = [node for scope in function.chain() for node in locks.locks_of(module, scope)]
    others = looks(function, holder, store.slice)
    if any(inside(store, node) and any(inside(other, node) for other in others) for node in around):
        return None
    if locks.joins_a_flight(module, function) or locks.called_under_lock(module, function):
        return None
    return look


def _value_fill(module: Module, function: Function) -> ast.AST | None:
    """One value of the module: `global _cached_rates`, `if _cached_rates is not None and ...: return _cached_rates`, an
    await, `_cached_rates = ...`. Or one value of an object, `self._rates_cache`.
    """
    kept = {name for name in of_the_module(function) if is_cachy(name)}
    kept |= {
        name
        for _node, names, _value in function.bindings
        for name in names
        if name.startswith("self.") and _VALUE.search(name) and not is_made_here(function, name)
    }
    timed = _timed(function)
    for node, names, value in function.bindings if kept or timed else ():
        stored = (kept | timed) & {*names}
        if not stored or isinstance(value, ast.Constant):
            continue
        look = next(
            (test for test in function.tests if serves(test, stored) or renews(test, stored, node)), None
        )
        if look is None or not _is_waited_for(function, look.test, value):
            continue
        if position(look) > position(node) or not (stored & kept or tells_time(look.test)):
            continue
        if locks.joins_a_flight(module, function) or locks.called_under_lock(module, function):
            continue
        if any(inside(node, around) for around in locks.locks_of(module, function)):
            continue
        return look.test
    return None


def _timed(function: Function) -> set[str]:
    """The attributes and names of the module that a test reads together with the clock:
    `if self._rates is None or now() > self._until:`.
    """
    shared = of_the_module(function)
    return {
        name
        for test in function.tests
        if isinstance(test, ast.If) and tells_time(test.test)
        for name in names_in(test.test)
        if (name in shared or (name.startswith("self.") and not is_made_here(function, name)))
        and not _tells_time_by_name(name)
    }


def of_the_module(function: Function) -> set[str]:
    """The names that a function declares as `global`."""
    return set(function.globals)


def tells_time(test: ast.expr) -> bool:
    return bool(_CLOCK.search(text_of(test).replace("_", " ")))


def _tells_time_by_name(name: str) -> bool:
    return bool(_CLOCK.search(name.replace("_", " ")))


def renews(test: ast.AST, names: set[str], node: ast.AST) -> TypeGuard[ast.If]:
    """`if self._rates is None or time() > self._until: self._rates = await load()`."""
    return (
        isinstance(test, ast.If)
        and bool(names & names_in(test.test))
        and any(inside(node, statement) for statement in test.body)
        and tells_time(test.test)
        and _says_missing(test.test, names)
    )


def _says_missing(test: ast.expr, names: set[str]) -> bool:
    parts = test.values if isinstance(test, ast.BoolOp) and isinstance(test.op, ast.Or) else [test]
    return any((missing := _missing_in(part)) is not None and missing in names for part in parts)


def _missing_in(test: ast.expr) -> str | None:
    match test:
        case (
            ast.UnaryOp(op=ast.Not(), operand=asked)
            | ast.Compare(left=asked, ops=[ast.Is()], comparators=[ast.Constant(value=None)])
        ):
            return path(asked)
        case _:
            return None


def _refresh(module: Module, function: Function) -> ast.AST | None:
    """`if not self._is_cache_valid(): await self._refresh_cache()`, which fills `self._cache`."""
    for test in function.tests:
        if not isinstance(test, ast.If):
            continue
        asked = [path(node.func) for node in ast.walk(test.test) if isinstance(node, ast.Call)]
        if not any(n.startswith("self.") and is_cachy(n) and _VALID & {*words(n)} for n in asked):
            continue
        for wait in function.awaits:
            call = wait.value if isinstance(wait, ast.Await) else None
            if not isinstance(call, ast.Call) or not any(inside(wait, s) for s in test.body):
                continue
            filled = module.callee(call, function)
            if filled is None or not _fills_a_cache(filled) or _is_locked(module, function, filled, wait):
                continue
            return test.test
    return None


def _fills_a_cache(method: Function) -> bool:
    made = {name for _node, names, _value in method.bindings for name in names if name.startswith("self.")}
    return bool(method.awaits) and any(is_cachy(name) for name in made)


def _is_locked(module: Module, function: Function, filled: Function, wait: ast.AST) -> bool:
    return (
        bool(locks.locks_of(module, filled))
        or any(inside(wait, node) for node in locks.locks_of(module, function))
        or locks.joins_a_flight(module, filled)
        or locks.called_under_lock(module, function)
    )


def serves(test: ast.AST, names: set[str]) -> TypeGuard[ast.If]:
    """`if kept is not None: return kept`."""
    if not isinstance(test, ast.If) or not names & names_in(test.test):
        return False
    ends = test.body[-1]
    return isinstance(ends, ast.Return) and bool(names & names_in(ends.value))


def is_made_here(function: Function, holder: str) -> bool:
    """Callers do not share a dict of this call, or of an object that lives for one run."""
    if "." in holder:
        owners = holder.split(".")[:-1]
        if _OF_A_REQUEST & {*owners}:
            return True
        cls = owner_class(function)
        if cls is None or owners[0] != "self":
            return False
        if len(owners) > 1:
            return not _LIVES_LONG & {*words(owners[-1])}
        return (
            function.name == "run"
            or not _ONE_RUN.isdisjoint(words(cls.name)[-1:])
            or _is_made_per_request(cls, last(holder))
        )
    made = [function]
    for scope in function.chain():
        if scope is not function and not _returns(scope, made[-1].name):
            made.append(scope)
        elif scope is not function:
            break  # a decorator: what it has is shared by all calls of the function that it returns
    bound = {name for scope in made for _n, names, _v in scope.bindings for name in names}
    return holder in bound or any(holder in scope.parameters for scope in made)


def _returns(function: Function, name: str) -> bool:
    """`return wrapper`, `return update_wrapper(wrapper, function)`; not `return [await wrapper()]`."""
    found = (node.value for node in ast.walk(function.node) if isinstance(node, ast.Return))
    return any(
        path(value) == name
        or (isinstance(value, ast.Call) and any(path(argument) == name for argument in value.args))
        for value in found
    )


def _is_made_per_request(cls: ast.ClassDef, attribute: str) -> bool:
    """Whether each request makes the object and its dict. A dict in the class body is shared by all."""
    for statement in cls.body:
        targets = (
            statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        )
        if any(isinstance(target, ast.Name) and target.id == attribute for target in targets):
            return False
    made = next((s for s in cls.body if isinstance(s, ast.FunctionDef) and s.name == "__init__"), None)
    if made is None:
        return False
    given = {argument.arg for argument in made.args.args}
    return bool(given & _ONE_REQUESTS) or any(
        path(target) == f"self.{attribute}" and isinstance(node.value, ast.Name) and node.value.id in given
        for node in made.body
        if isinstance(node, ast.Assign)
        for target in node.targets
    )


def looks(function: Function, holder: str, key: ast.expr) -> list[ast.expr]:
    found: list[ast.expr] = []
    for call in function.calls:
        if isinstance(call.func, ast.Attribute) and call.func.attr == "get" and call.args:
            awaited = any(isinstance(node, ast.Await) and node.value is call for node in function.awaits)
            if (
                path(call.func.value) == holder
                and not awaited
                and same_key(function, (call.args[0],), (key,))
            ):
                found.append(call)
    for compare in function.compares:
        if isinstance(compare.ops[0], ast.In | ast.NotIn) and path(compare.comparators[0]) == holder:
            if same_key(function, (compare.left,), (key,)):
                found.append(compare)
    found += [
        node
        for around in (*_tried(function), *(test.test for test in function.tests if isinstance(test, ast.If)))
        for node in ast.walk(around)
        if isinstance(node, ast.Subscript)
        and isinstance(node.ctx, ast.Load)
        and path(node.value) == holder
        and same_key(function, (node.slice,), (key,))
    ]
    return found


def _tried(function: Function) -> Iterator[ast.AST]:
    """`with suppress(KeyError): return kept[key]`, `try: return kept[key] / except KeyError: ...`."""
    for node in function.withs:
        called = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
        if any(
            last(path(call.func)) == "suppress" and "KeyError" in text_of(argument)
            for call in called
            for argument in call.args
        ):
            yield from node.body
    for statement in function.node.body:
        if isinstance(statement, ast.Try) and any("KeyError" in text_of(h.type) for h in statement.handlers):
            yield from statement.body


def _awaits_value(
    module: Module, function: Function, look: ast.expr, store: ast.Subscript, value: ast.expr
) -> bool:
    """Whether, on a miss, other coroutines may run between the look-up and the store."""
    inside_value = [node for node in ast.walk(value) if isinstance(node, ast.Await)]
    between = [
        node
        for node in function.awaits
        if position(look) < position(node) < position(store) and not _aside(module, function, node, store)
    ]
    return any(_computes(module, function, node) for node in inside_value) or (
        any(_computes(module, function, node) for node in between) and _is_waited_for(function, look, value)
    )


def _is_waited_for(function: Function, look: ast.expr, value: ast.expr) -> bool:
    """Whether the stored value comes from something awaited, not only from what was known at the look-up."""
    feeding, seen = names_in(value) - {"self", "cls"}, set[str]()
    waits = [node for node in function.awaits if position(node) > position(look)]
    if any(inside(wait, value) for wait in waits):
        return True
    grown = {
        path(call.func.value)
        for call in function.calls
        if isinstance(call.func, ast.Attribute) and call.func.attr in ("append", "extend", "update", "add")
    } | {path(store.value) for store in function.stores}
    while feeding - seen:
        name = (feeding - seen).pop()
        seen.add(name)
        if name in grown:
            return True
        for node, names, source in function.bindings:
            if name not in names:
                continue
            around = isinstance(node, ast.AsyncWith | ast.AsyncFor)
            if around or any(inside(wait, source) for wait in waits):
                return True
            feeding |= names_in(source) - {"self", "cls"}
    return any("." in name for name in seen)  # an awaited method may have set `self.rows`


def _computes(module: Module, function: Function, node: ast.AST) -> bool:
    """A wait for a lock, or a read of a shared cache, is no computation."""
    if isinstance(node, ast.With | ast.AsyncWith):
        return node not in locks.locks_of(module, function)
    waited = node.value if isinstance(node, ast.Await) else None
    called = waited.func if isinstance(waited, ast.Call) else None
    return not isinstance(called, ast.Attribute) or kind(module, called.value, function) != "cache"


def _aside(module: Module, function: Function, node: ast.AST, store: ast.Subscript) -> bool:
    """Whether the node is in a branch that does not reach the store: `if hit: await send(hit); return`."""
    for around in module.up(node):
        if around is function.node:
            return False
        if (
            isinstance(around, ast.If)
            and not inside(store, around)
            and isinstance(around.body[-1], ast.Return)
        ):
            return any(inside(node, statement) for statement in around.body)
    return False
