"""Rows locked by `FOR UPDATE` whose transaction ends before the work on them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Literal

from stampede_guard.audit.source.model import Function, Module, inside, position
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import last, path, words

LOCKING = re.compile(r"for[\s_]+(?:no[\s_]+key[\s_]+)?update\b", re.IGNORECASE)
_SELECTS = re.compile(r"^\s*select\b.*\bfor\s+(?:no\s+key\s+)?update\b", re.IGNORECASE | re.DOTALL)
_BEGINS = re.compile(r"^\s*(?:begin|start\s+transaction)\b", re.IGNORECASE)
# asyncpg's own methods: each call is a transaction of its own, outside `transaction()`.
_FETCHES = frozenset("fetch fetchrow fetchval".split())
_TRANSACTIONS = frozenset("transaction atomic begin start".split())
_MARKED = frozenset(("with_for_update", "select_for_update"))
_MANY = frozenset("all fetchall".split())
_ENDS = (ast.Return, ast.Break, ast.Raise)

End = Literal["at once", "in the loop"]


def ended(module: Module) -> Iterator[tuple[ast.Call, Function, End]]:
    """Each statement that locks rows in vain, and when its locks end."""
    for function in module.functions_with(LOCKING):
        for call in function.calls:
            if _is_alone(module, function, call):
                yield call, function, "at once"
        yield from _committed_in_loops(module, function)


def _is_alone(module: Module, function: Function, call: ast.Call) -> bool:
    """`conn.fetch("SELECT ... FOR UPDATE")` of asyncpg, outside a transaction."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _FETCHES or not call.args:
        return False
    if not _SELECTS.match(_sql(function, module, call.args[0])):
        return False
    if not _is_asyncpg(module, function, call.func.value):
        return False
    return not any(_may_begin(module, scope, call) for scope in function.chain())


def _is_asyncpg(module: Module, function: Function, receiver: ast.expr) -> bool:
    """A pool, or a connection that this function takes: it is in no transaction yet."""
    made = origin(module, receiver, function)
    if made.startswith("asyncpg."):
        return made.endswith(("connect()", "create_pool()", "acquire()"))
    if words(last(path(receiver)))[-1:] == ("pool",):
        return True
    return made.endswith(".acquire()") and isinstance(receiver, ast.Name)


def _may_begin(module: Module, function: Function, before: ast.Call) -> bool:
    """Whether the function begins a transaction, in whatever way."""
    return any(
        (isinstance(call.func, ast.Attribute) and call.func.attr in _TRANSACTIONS)
        or bool(call.args and _BEGINS.match(_sql(function, module, call.args[0])))
        for call in function.calls
        if call is not before
    ) or any(
        not _TRANSACTIONS.isdisjoint(words(last(path(decorator))))
        for decorator in function.node.decorator_list
    )


def _committed_in_loops(module: Module, function: Function) -> Iterator[tuple[ast.Call, Function, End]]:
    """`for row in rows: ...; session.commit()`: the first commit ends the locks of the other rows."""
    for loop in function.loops:
        if not isinstance(loop, ast.For | ast.AsyncFor) or not isinstance(loop.iter, ast.Name):
            continue
        bound = [
            (node, value)
            for node, names, value in function.bindings
            if names == [loop.iter.id] and position(node) < position(loop)
        ]
        taken = _locked(function, bound[-1][1]) if bound else None
        if taken is None or any(
            _is_commit(call) and position(bound[-1][0]) < position(call) < position(loop)
            for call in function.calls
        ):
            continue
        within = [call for call in function.calls if any(inside(call, part) for part in loop.body)]
        if any(_is_marked(call) for call in within):
            continue
        if any(_is_commit(call) and not _leaves_after(module, loop, call) for call in within):
            yield taken, function, "in the loop"


def _locked(function: Function, value: ast.expr) -> ast.Call | None:
    """The call that locks the rows of a list, also in a statement with a name of its own."""
    while isinstance(value, ast.Await):
        value = value.value
    if isinstance(value, ast.Call) and last(path(value.func)) == "list" and len(value.args) == 1:
        value = value.args[0]
    elif not isinstance(value, ast.Call) or last(path(value.func)) not in _MANY:
        return None
    names = {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
    parts = [value]
    for _ in range(2):  # `rows = result.all()`, `result = execute(statement)`
        found = [one for _node, bound, one in function.bindings if len(bound) == 1 and bound[0] in names]
        parts += found
        names |= {node.id for one in found for node in ast.walk(one) if isinstance(node, ast.Name)}
    return next(
        (
            node
            for part in parts
            for node in ast.walk(part)
            if isinstance(node, ast.Call) and _is_marked(node)
        ),
        None,
    )


def _is_marked(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr in _MARKED


def _is_commit(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and call.func.attr == "commit"


def _leaves_after(module: Module, loop: ast.For | ast.AsyncFor, call: ast.Call) -> bool:
    """Whether the loop ends after this commit."""
    below: ast.AST = module.statement(call)
    for around in module.up(below):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(around, name, None)
            if isinstance(block, list) and below in block:
                if any(isinstance(node, _ENDS) for node in block[block.index(below) :]):
                    return True
        if around is loop:
            return False
        below = around
    return False


def _sql(function: Function, module: Module, node: ast.expr) -> str:
    """The text of a statement, also from a name of the function or of the module. The whole text: the lock is last."""
    if isinstance(node, ast.Name):
        bound = [value for _node, names, value in function.bindings if names == [node.id]]
        stated = bound[-1] if bound else module.values.get(node.id)
        return _constants(stated)
    return _constants(node)


def _constants(node: ast.expr | None) -> str:
    if node is None:
        return ""
    return "".join(
        inner.value
        for inner in ast.walk(node)
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
    )
