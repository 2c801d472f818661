"""Does a hit save anything? If the write runs on a hit and on a miss, nothing was cached for a reader."""

from __future__ import annotations

import ast

from stampede_guard.audit.caching.flow import Flow
from stampede_guard.audit.caching.work import calls_work
from stampede_guard.audit.source.model import inside, position
from stampede_guard.audit.source.words import names_in, path

_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_DEPTH = 4


def spares(flow: Flow, write: ast.expr, value: ast.expr) -> bool:
    """Whether a test of the read value decides if the value is computed, stored or waited for."""
    if flow.decides_elsewhere():
        return True
    flags = _conditions(flow, write)
    feeding = _feeding(flow, names_in(value) | flags)
    asking = sorted(flow.asking(), key=position)
    if asking and _asks_in_any_case(flow, asking[0], feeding):
        return False
    return any(_decides(flow, test, write, feeding, flags) for test in asking)


def _asks_in_any_case(flow: Flow, test: ast.AST, feeding: set[str]) -> bool:
    """`if last: page = fetch(since=last)`, `else: page = fetch()`: a cursor. A hit asks for less, but it asks, too."""
    if not isinstance(test, ast.If) or not test.orelse:
        return False
    sides: list[tuple[set[str], set[str]]] = []
    for side in (test.body, test.orelse):
        if any(isinstance(inner, _LEAVES) for statement in side for inner in ast.walk(statement)):
            return False
        bound = {
            name
            for node, names, value in flow.bindings
            if calls_work(value) and any(inside(node, statement) for statement in side)
            for name in names
        }
        asked = {
            path(call.func)
            for call in flow.function.calls
            if any(inside(call, statement) for statement in side)
            and calls_work(call)
            and not _is_aside(flow, call)
        }
        sides.append((bound & feeding, asked))
    (bound, asked), (bound_else, asked_else) = sides
    return bool(bound & bound_else) and bool(asked) and asked == asked_else and _is_bare(flow, test)


def _is_aside(flow: Flow, call: ast.Call) -> bool:
    """A log, or the cache itself."""
    owner = path(call.func).rpartition(".")[0]
    return owner == flow.read.receiver or owner.partition(".")[0].lower() in ("logger", "log", "logging")


def _is_bare(flow: Flow, test: ast.If) -> bool:
    """Whether neither side only unpacks the read value: `page = render(cached)`, `else: page = render(found)`."""
    got = {name for _n, names, value in flow.bindings if inside(flow.read.call, value) for name in names}
    return not any(
        isinstance(argument, ast.Name) and argument.id in got
        for call in flow.function.calls
        if inside(call, test)
        for argument in call.args
        if not _is_aside(flow, call)
    )


def _decides(flow: Flow, test: ast.AST, write: ast.expr, feeding: set[str], flags: set[str]) -> bool:
    if not isinstance(test, ast.If) or inside(write, test):
        return True
    if any(isinstance(inner, _LEAVES) for inner in ast.walk(test)):
        return True
    if any(
        inside(node, test) and feeding & set(names) and (flags & set(names) or not _is_plain(value))
        for node, names, value in flow.bindings
    ):
        return True
    return any(_sorts(call, feeding) and inside(call, test) for call in flow.function.calls)


def _sorts(call: ast.Call, feeding: set[str]) -> bool:
    """`missing.append(id)`: this decides what is computed later."""
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr in ("append", "add")
        and path(call.func.value) in feeding
    )


def _is_plain(value: ast.expr) -> bool:
    """A default, or the headers of a request that is sent on a hit, too: nothing was computed or chosen here."""
    return isinstance(value, ast.Constant | ast.Dict) and not any(
        isinstance(node, ast.Call | ast.Await) for node in ast.walk(value)
    )


def _conditions(flow: Flow, write: ast.expr) -> set[str]:
    """The names in the conditions under which the value is stored."""
    names: set[str] = set()
    for around in flow.module.up(write):
        if around is flow.function.node:
            break
        if isinstance(around, ast.If):
            names |= names_in(around.test)
    return names


def _feeding(flow: Flow, names: set[str]) -> set[str]:
    """These names, and those that they were made from."""
    for _ in range(_DEPTH):
        more = {n for _node, bound, source in flow.bindings if names & set(bound) for n in names_in(source)}
        if more <= names:
            break
        names |= more
    return names
