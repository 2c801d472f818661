"""Misses that ask for one row by its key. They cost about as much as the round trip to the cache that they follow."""

from __future__ import annotations

import ast

from stampede_guard.audit.caching.accesses import Access
from stampede_guard.audit.caching.work import calls_work
from stampede_guard.audit.source.model import Function, Module, inside, position
from stampede_guard.audit.source.words import last, path

# One row, or whether there is one. `latest()` and `earliest()` sort first, and are left out.
_ONE = frozenset("get get_or_none get_or_create first exists one one_or_none scalar scalar_one".split())
# These make one row out of many.
_MANY = frozenset(
    "aggregate annotate count distinct extra group_by having join options order_by outerjoin prefetch_related raw "
    "reverse select_related union using".split()
)
_ASKED = frozenset(("filter", "filter_by", "get", "get_or_none", "get_or_create"))
# The last part of `slug__iexact=`: another one compares with more than one value, or reads the text.
_EQUAL = frozenset(("id", "pk", "exact", "iexact"))
_REPEATS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_LOGS = frozenset(("logger", "log", "logging"))
_DEPTH = 3


def asks_for_one_row(module: Module, function: Function, read: Access, write: Access) -> bool:
    """Whether one query for one row is all that a miss costs, as far as this file shows."""
    if not (inside(read.call, function.node) and inside(write.call, function.node)):
        return False
    between = (position(read.call), position(write.call))

    def counts(node: ast.AST) -> bool:
        return between[0] < position(node) < between[1] and not inside(node, read.call)

    if any(counts(loop) for loop in function.loops):
        return False
    calls = [call for call in function.calls if counts(call) and not _is_aside(call, read, write)]
    rows = [call for call in calls if _is_row(call)]
    # `.filter(...).first().values()` is one query: the outermost of these calls.
    queries = [row for row in rows if not any(row is not other and inside(row, other) for other in rows)]
    if len(queries) != 1 or any(isinstance(around, _REPEATS) for around in module.up(queries[0])):
        return False
    return not any(
        calls_work(_alone(call)) and not _only_converts(module, function, call)
        for call in calls
        if not inside(call, queries[0])
    )


def _is_aside(call: ast.Call, read: Access, write: Access) -> bool:
    """A log, or the cache itself."""
    said = path(call.func)
    owner = said.rpartition(".")[0]
    if owner and owner in (read.receiver, write.receiver):
        return True
    return owner.partition(".")[0].lower() in _LOGS or last(said) in (read.helper, write.helper)


def _is_row(call: ast.Call) -> bool:
    """`Page.objects.get(id=7)`, `session.get(Page, 7)`, `session.query(Page).filter_by(id=7).first()`."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _ONE:
        return False
    if _is_by_primary_key(call):
        return True
    chain = list(_chain(call))
    names = {_name(inner) for inner in chain}
    asked = [inner for inner in chain if _name(inner) in _ASKED]
    if names & _MANY or not _is_database(path(call.func)) or not all(map(_compares_for_equality, asked)):
        return False
    # `Settings.objects.get_or_create()`: a table of one row.
    return _name(call) == "get_or_create" or any(inner.keywords or inner.args for inner in asked)


def _is_by_primary_key(call: ast.Call) -> bool:
    """`session.get(Page, 7)`: the class comes first."""
    return _name(call) == "get" and len(call.args) == 2 and last(path(call.args[0]))[:1].isupper()


def _is_database(said: str) -> bool:
    parts = said.split(".")
    return "objects" in parts or any(part in ("query", "query()") for part in parts) or parts[0][:1].isupper()


def _compares_for_equality(call: ast.Call) -> bool:
    return all(
        isinstance(argument, ast.Compare) and all(isinstance(op, ast.Eq) for op in argument.ops)
        for argument in call.args
    ) and all(
        keyword.arg is not None
        and (
            keyword.arg == "defaults" or "__" not in keyword.arg or keyword.arg.rpartition("__")[2] in _EQUAL
        )
        for keyword in call.keywords
    )


def _chain(call: ast.expr) -> list[ast.Call]:
    """The calls of `a.b(...).c(...)`, the last one first."""
    found: list[ast.Call] = []
    here: ast.expr = call
    while isinstance(here, ast.Call | ast.Attribute):
        if isinstance(here, ast.Call):
            found.append(here)
            here = here.func
        else:
            here = here.value
    return found


def _name(call: ast.Call) -> str:
    return last(path(call.func))


def _alone(call: ast.Call) -> ast.Call:
    """The call without the calls in it: those are judged by themselves."""
    func = call.func
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Call | ast.Await):
        func = ast.Attribute(value=ast.Name(id="_", ctx=ast.Load()), attr=func.attr, ctx=ast.Load())
    nothing = ast.Constant(value=None)
    given = [ast.keyword(arg=keyword.arg, value=nothing) for keyword in call.keywords]
    return ast.Call(func=func, args=[nothing for _argument in call.args], keywords=given)


def _only_converts(module: Module, function: Function, call: ast.Call, depth: int = _DEPTH) -> bool:
    """`_to_detail(row)`: a function of this file that works with what it is given."""
    callee = module.callee(call, function)
    if callee is None or callee.is_async or callee.loops or not depth:
        return False
    return all(
        not calls_work(_alone(inner)) or _only_converts(module, callee, inner, depth - 1)
        for inner in callee.calls
    )
