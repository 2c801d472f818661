"""SG404: a call that blocks the event loop becomes an await, or moves to a thread."""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.fixes.facts.texts import arguments, dedented
from stampede_guard.audit.fixes.naming import means_module
from stampede_guard.audit.plan import FixPlan, Import, Replace, Span
from stampede_guard.audit.rule import Violation
from stampede_guard.audit.source.model import Function, Module, argument
from stampede_guard.audit.source.origins import origin

# Clients that threads may share. Threads cannot share clients of pymemcache and pylibmc, and each thread gets its
# own memcache.Client.
_FOR_THREADS = re.compile(
    r"^(?:redis|valkey)\.(?:client\.|cluster\.)?(?:Strict)?(?:Redis|RedisCluster|Valkey|from_url)\b"
)
# Methods that answer later, in parts. The thread would end before the first request is sent.
_LAZY = re.compile(r"_iter$|^(?:monitor|transaction)$")
_MEANWHILE = "other coroutines run during the call: its reads before and writes after are no longer one step"


def gives_way(module: Module, hit: Violation) -> FixPlan | None:
    """`time.sleep(1)` becomes `await asyncio.sleep(1)`; `client.get(key)` is called through `asyncio.to_thread`."""
    edits = [edit for call in (hit.node, *hit.also) if (edit := _given_way(module, call)) is not None]
    if not edits:
        return None
    return FixPlan(edits=(*edits, Import("asyncio", "")), reasons=(_MEANWHILE,))


def _given_way(module: Module, call: ast.AST) -> Replace | None:
    assert isinstance(call, ast.Call)
    function = module.owners.get(call)
    if function is None or not _may_await(module, call, function) or not means_module(module, "asyncio"):
        return None
    if module.resolve(call.func) == "time.sleep":
        code = f"await asyncio.sleep{arguments(module, call)}"
    elif _is_for_threads(module, call, function):
        code = f"await asyncio.to_thread{_with_first(arguments(module, call), ast.unparse(call.func))}"
    else:
        return None
    if _binds_tighter(module.parents.get(call), call):
        code = f"({code})"
    told = dedented(module, call, code)
    if told is None:
        return None
    return Replace(Span.of(call), told)


def _is_for_threads(module: Module, call: ast.Call, function: Function) -> bool:
    name = module.resolve(call.func)
    if name.startswith("requests."):
        stream = argument(call, 99, "stream")
        return not any(keyword.arg is None for keyword in call.keywords) and stream is None
    return (
        isinstance(call.func, ast.Attribute)
        and not _LAZY.search(call.func.attr)
        and _FOR_THREADS.match(origin(module, call.func.value, function)) is not None
    )


def _may_await(module: Module, call: ast.Call, function: Function) -> bool:
    """A lambda cannot await. A generator expression with an await becomes an async generator."""
    for around in module.up(call):
        if around is function.node:
            return True
        if isinstance(around, ast.Lambda | ast.GeneratorExp | ast.FunctionDef | ast.AsyncFunctionDef):
            return False
    return False


def _with_first(told: str, first: str) -> str:
    inner = told[1:]
    if inner.strip() == ")":
        return f"({first})"
    begun = re.match(r"\s*", inner)
    space = begun[0] if begun is not None else ""
    apart = space if "\n" in space else " "
    return f"({space}{first},{apart}{inner[len(space) :]}"


def _binds_tighter(parent: ast.AST | None, node: ast.expr) -> bool:
    match parent:
        case ast.Attribute() | ast.Await():
            return True
        case ast.Subscript(value=value):
            return value is node
        case ast.Call(func=func):
            return func is node
        case _:
            return False
