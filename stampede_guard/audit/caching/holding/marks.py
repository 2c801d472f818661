"""Marks of tasks that are set before the work and stay when it fails: the retry takes them for the work's end."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching import locks, lockuse
from stampede_guard.audit.caching.accesses import accesses
from stampede_guard.audit.caching.keys import same_key
from stampede_guard.audit.source.model import Function, Module, argument, inside, position
from stampede_guard.audit.source.words import last, path

TASKS = re.compile(r"autoretry_for|\.retry\s*\(|retry_backoff")
_TASKS = frozenset("task shared_task actor".split())
_SAYS = re.compile(r"^(?:\w+\.)*(?:log\w*|print|warn\w*|info|debug|error)\b", re.IGNORECASE)
_WORK = 2  # calls after the mark
_SHORT = 120  # seconds: such a mark may be gone when the retry comes


def kept(module: Module) -> Iterator[tuple[ast.Call, Function]]:
    """Each such mark: a task that retries itself sets it, leaves if it is there, and never deletes it."""
    for function in module.functions_with(TASKS):
        if not _retries(function) or lockuse.deletes(function) or "release" in _called(function):
            continue
        mark = _mark(module, function)
        if mark is None or _is_short(mark) or _knows_that_it_is_a_retry(function, mark):
            continue
        if _works_after(function, mark):
            yield mark, function


def _knows_that_it_is_a_retry(function: Function, mark: ast.Call) -> bool:
    """`if not self.request.retries and redis.get(key): return`."""
    return any(
        isinstance(node, ast.Attribute) and node.attr == "retries" and node.lineno <= (mark.end_lineno or 0)
        for node in ast.walk(function.node)
    )


def _retries(function: Function) -> bool:
    for node in function.node.decorator_list:
        if isinstance(node, ast.Call) and last(path(node.func)) in _TASKS:
            if any(option.arg in ("autoretry_for", "retry_backoff") for option in node.keywords):
                return True
            return "retry" in _called(function)
    return False


def _called(function: Function) -> set[str]:
    return {call.func.attr for call in function.calls if isinstance(call.func, ast.Attribute)}


def _mark(module: Module, function: Function) -> ast.Call | None:
    """`if not redis.set(key, 1, nx=True): return`, or `if redis.get(key): return`, and then `setex` of the key."""
    for claim in locks.claims(module, function):
        if isinstance(claim.func, ast.Attribute) and claim.func.attr == "acquire":
            continue
        if _leaves_if(function, claim):
            return claim
    seen = accesses(module, function)
    for read in seen:
        if read.what not in ("read", "exists") or not _leaves_if(function, read.call):
            continue
        for write in seen:
            call = write.call
            if (
                write.what != "write"
                or not isinstance(call, ast.Call)
                or position(call) < position(read.call)
            ):
                continue
            if isinstance(write.value, ast.Constant) and same_key(function, read.key, write.key):
                return call
    return None


def _leaves_if(function: Function, asked: ast.expr) -> bool:
    """Whether the task ends because of an answer, without work."""
    names = {n for _node, bound, value in function.bindings if inside(asked, value) for n in bound}
    for test in function.tests:
        if not isinstance(test, ast.If) or not any(isinstance(end, ast.Return) for end in test.body[-1:]):
            continue
        told = {node.id for node in ast.walk(test.test) if isinstance(node, ast.Name)}
        if inside(asked, test.test) or told & names:
            return all(_is_quiet(statement) for statement in test.body)
    return False


def _is_quiet(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Return):
        return not any(isinstance(node, ast.Call) for node in ast.walk(statement))
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and bool(_SAYS.match(path(statement.value.func)))
    )


def _is_short(mark: ast.Call) -> bool:
    milliseconds = argument(mark, len(mark.args), "px")
    if isinstance(milliseconds, ast.Constant) and isinstance(milliseconds.value, int):
        return milliseconds.value <= 1000 * _SHORT
    lifetime = argument(mark, 1 if path(mark.func).endswith("setex") else 2, "ex", "timeout", "ttl", "time")
    return isinstance(lifetime, ast.Constant) and isinstance(lifetime.value, int) and lifetime.value <= _SHORT


def _works_after(function: Function, mark: ast.Call) -> bool:
    after = [
        call
        for call in function.calls
        if position(call) > position(mark) and not inside(call, mark) and not _SAYS.match(path(call.func))
    ]
    return len(after) >= _WORK
