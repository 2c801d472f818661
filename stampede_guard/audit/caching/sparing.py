"""Does a hit save anything? If the write runs on a hit and on a miss, nothing was cached for a reader."""

from __future__ import annotations

import ast

from stampede_guard.audit.caching.flow import Flow
from stampede_guard.audit.source.model import inside
from stampede_guard.audit.source.words import names_in, path

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_DEPTH = 4


def spares(flow: Flow, write: ast.expr, value: ast.expr) -> bool:
    """Whether a test of the read value decides if the value is computed, stored or waited for."""
    if flow.decides_elsewhere():
        return True
    feeding = _feeding(flow, write, value)
    return any(_decides(flow, test, write, feeding) for test in flow.asking())


def _decides(flow: Flow, test: ast.AST, write: ast.expr, feeding: set[str]) -> bool:
    if not isinstance(test, ast.If) or inside(write, test):
        return True
    if any(isinstance(inner, _LEAVES) for inner in ast.walk(test)):
        return True
    if any(feeding & set(names) and inside(node, test) for node, names, _value in flow.bindings):
        return True
    return any(_sorts(call, feeding) and inside(call, test) for call in flow.function.calls)


def _sorts(call: ast.Call, feeding: set[str]) -> bool:
    """`missing.append(id)`: this decides what is computed later."""
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("append", "add")
        and path(call.func.value) in feeding
    )


def _feeding(flow: Flow, write: ast.expr, value: ast.expr) -> set[str]:
    """The names in the stored value, and in the conditions under which it is stored."""
    names = names_in(value)
    for around in flow.module.up(write):
        if around is flow.function.node:
            break
        if isinstance(around, ast.If):
            names |= names_in(around.test)
    for _ in range(_DEPTH):
        more = {n for _node, bound, source in flow.bindings if names & set(bound) for n in names_in(source)}
        if more <= names:
            break
        names |= more
    return names
