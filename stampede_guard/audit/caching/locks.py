"""What prevents a second caller from computing too: locks, claims, joined flights."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.source.model import Function, Module, With, argument, inside, keyword_names
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import is_locky, last, path, text_of, words

_LOCK_ORIGIN = re.compile(r"(?:^|\.)(?:\w*Lock|RLock|Mutex|Condition|Redlock|\w+\.lock)\(\)")
_LOCAL_LOCK = re.compile(
    r"^(?:asyncio|threading|anyio|trio|multiprocessing)\.(?:Lock|RLock|Condition|Semaphore)\(\)$"
)
# Whole words of names for shared computations, joined by spaces: `single_flight`, `inFlight`, `pending_tasks`.
_FLIGHT = re.compile(
    r"\b(?:in ?flight|single ?flight|coalesc(?:ing|er)|dedup requests?|create future|stampede|dogpile|thundering)\b"
)
_PENDING = re.compile(
    r"\b(?:futures?|pending(?: (?:futures|tasks|requests|fetch\w*|loads?))?|running tasks|ongoing)$"
)
_TASKS = frozenset("Event Future create_future create_task ensure_future Condition".split())
_JOINS = frozenset("shield wait wait_for gather result exception add_done_callback".split())
_GUARDED = re.compile(
    r"^(?:\w+ )*(?:locked|with lock|synchroni[sz]ed|single ?flight|exclusive|mutex|dogpile)(?: \w+)*$"
)
_NOT_LOCKS = re.compile(r"pool|semaphore|limit|throttle|bucket|engine|quota|breaker", re.IGNORECASE)
# Methods that return the lock that their owner is named after.
_OF_LOCKS = frozenset("acquire hold setdefault get for_key write read writer reader enter locked".split())


def is_lock(module: Module, expr: ast.expr, function: Function | None) -> bool:
    """Whether the subject of a `with` is a lock that callers share."""
    dotted = path(expr)
    made = origin(module, expr, function)
    if isinstance(expr, ast.Name) and _is_private(module, expr.id, function):
        return False
    if _LOCK_ORIGIN.search(made):
        return True
    names = [part for part in dotted.replace("()", "").replace("[]", "").split(".") if part]
    return bool(names) and (is_locky(names[-1]) or (names[-1] in _OF_LOCKS and is_locky(".".join(names))))


def _is_private(module: Module, name: str, function: Function | None) -> bool:
    """A lock that each call creates for itself protects nothing."""
    if function is None:
        return False
    made = [value for _n, names, value in function.bindings if names == [name]]
    return bool(made) and all(
        isinstance(value, ast.Call) and _LOCAL_LOCK.match(f"{module.resolve(value.func)}()") for value in made
    )


def locks_of(module: Module, function: Function) -> list[With]:
    memo: dict[Function, list[With]] = module.memo.setdefault("locks", {})
    if function not in memo:
        memo[function] = [
            node
            for node in function.withs
            if any(is_lock(module, i.context_expr, function) for i in node.items)
        ]
    return memo[function]


def claims(module: Module, function: Function) -> list[ast.Call]:
    """Calls that take a lock without `with`: SET NX, SETNX, add, acquire."""
    return [call for call in function.calls if is_claim(module, call)]


def is_claim(module: Module, call: ast.Call) -> bool:
    if not isinstance(call.func, ast.Attribute | ast.Name):
        return False
    name = last(path(call.func)) if isinstance(call.func, ast.Name) else call.func.attr
    if name == "set":
        return is_nx(call)
    if name in ("setnx", "add", "set_if_absent", "set_nx"):
        key = argument(call, 0, "key", "name")
        return is_locky(text_of(key)) or name != "add"
    said = words(name)
    if name in ("acquire", "try_acquire", "__aenter__", "__enter__"):
        return isinstance(call.func, ast.Attribute) and not _NOT_LOCKS.search(path(call.func.value))
    return bool(said) and said[0] in ("acquire", "try", "take", "obtain", "claim") and is_locky(name)


def is_nx(call: ast.Call) -> bool:
    if "nx" in keyword_names(call):
        value = argument(call, 99, "nx")
        return not (isinstance(value, ast.Constant) and value.value is False)
    return any(isinstance(arg, ast.Constant) and arg.value in ("NX", "nx") for arg in call.args)


def joins_a_flight(module: Module, function: Function) -> bool:
    """Whether callers wait for a running computation: a dict of futures, a single-flight helper.

    A name alone is no evidence: `count_pending()` computes. It must be used as a flight is: looked up by a key,
    called, entered or awaited.
    """
    for scope in function.chain():
        for decorator in scope.node.decorator_list:
            if _GUARDED.search(_spaced(last(path(decorator)))) and _may_lock(module, decorator):
                return True
    used = [_spaced(last(name)) for name in _used(function)]
    if any(_FLIGHT.search(name) for name in used) or "get or lock" in used:
        return True
    if _keeps_events(module, function):
        return True
    return any(_PENDING.search(name) for name in used) and _awaits_a_task(function)


def _keeps_events(module: Module, function: Function) -> bool:
    """`if key in running: await running[key].wait()`, `running[key] = asyncio.Event()`, whatever its name."""
    for store in function.stores:
        assigned = module.parents.get(store)
        holder = path(store.value)
        if not isinstance(assigned, ast.Assign) or not _makes_a_task(function, assigned.value, holder):
            continue
        if any(path(compare.comparators[0]) == holder for compare in function.compares):
            return True
        if any(path(call.func) == f"{holder}.get" for call in function.calls):
            return True
    return False


def _makes_a_task(function: Function, value: ast.expr, holder: str) -> bool:
    """`asyncio.Event()`, or a local name that only holds such an object, or one taken from the same dict."""
    if isinstance(value, ast.Name):
        made = [source for _node, names, source in function.bindings if names == [value.id]]
        taken = (f"{holder}.pop", f"{holder}.get")
        kinds = [path(source.func) if isinstance(source, ast.Call) else "" for source in made]
        return any(last(kind) in _TASKS for kind in kinds) and all(
            last(kind) in _TASKS or kind in taken for kind in kinds
        )
    return isinstance(value, ast.Call) and last(path(value.func)) in _TASKS


def _spaced(name: str) -> str:
    return " ".join(words(name))


def _may_lock(module: Module, decorator: ast.expr) -> bool:
    """A decorator of this file must have a lock in it."""
    func = decorator.func if isinstance(decorator, ast.Call) else decorator
    made = module.functions_named(func.id) if isinstance(func, ast.Name) else []
    if not made:
        return True
    nested = [f for f in module.functions if any(outer is made[0] for outer in f.chain())]
    return any(locks_of(module, f) or claims(module, f) for f in nested)


def _used(function: Function) -> Iterator[str]:
    """What is called, looked up by a key, entered or awaited; also the owners of called methods."""
    for call in function.calls:
        yield path(call.func)
        if isinstance(call.func, ast.Attribute):
            yield path(call.func.value)
        for given in call.args if last(path(call.func)) in _JOINS else ():
            yield path(given)
    for compare in function.compares:
        if isinstance(compare.ops[0], ast.In | ast.NotIn):
            yield path(compare.comparators[0])
    for store in function.stores:
        yield path(store.value)
    for node in function.withs:
        for item in node.items:
            yield path(item.context_expr)
    for waited in function.awaits:
        if isinstance(waited, ast.Await):
            yield path(waited.value)


def _awaits_a_task(function: Function) -> bool:
    """Whether it waits for something that runs already: `await task`, `shield(task)`, `future.result()`."""
    if any(last(path(call.func)) in _JOINS for call in function.calls):
        return True
    return any(
        isinstance(node, ast.Await) and not isinstance(node.value, ast.Call) for node in function.awaits
    )


def called_under_lock(module: Module, function: Function) -> bool:
    """Whether every caller in this file holds a lock."""
    uses = module.uses(function)
    if not uses:
        return False
    for call in uses:
        caller = module.owners.get(call)
        if caller is None or caller is function:
            return False
        if not any(inside(call, node) for node in locks_of(module, caller)):
            return False
    return True
