"""SG305: a flag that is read and then set becomes SET NX, which checks and takes it in one step."""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.fixes.facts.texts import arguments, dedented, source
from stampede_guard.audit.plan import Delete, FixPlan, Replace, Span
from stampede_guard.audit.rule import Violation
from stampede_guard.audit.source.model import Module, keyword_names
from stampede_guard.audit.source.origins import origin

_UNTIL = frozenset(("ex", "px", "exat", "pxat"))
_LASTS = {"setex": "ex", "psetex": "px"}
_WHY = "a flag with a falsy value counted as free, and now blocks until it expires"


def in_one_step(module: Module, hit: Violation) -> FixPlan | None:
    """`if redis.get(k): return` and the set after it become `if not redis.set(k, 1, ex=60, nx=True): return`."""
    read = hit.node
    if not isinstance(read, ast.Call) or not isinstance(read.func, ast.Attribute) or len(read.args) != 1:
        return None
    made = origin(module, read.func.value, module.owners.get(read)).lower()
    if read.func.attr not in ("get", "exists") or not ("redis" in made or "valkey" in made):
        return None
    whole = _whole(module, read)
    branch, free = _tested(module, whole)
    if branch is None or branch.orelse:
        return None
    statement = branch.body[0] if free else _following(module, branch)
    write = _written(statement, awaited=isinstance(whole, ast.Await))
    if statement is None or write is None or not _is_its_flag(write, read):
        return None
    taken = _taking(module, write)
    if taken is None:
        return None
    told = dedented(module, write, taken)
    if told is None:
        return None
    code = f"{'' if free else 'not '}{'await ' if isinstance(whole, ast.Await) else ''}{told}"
    edits = (Replace(Span.of(branch.test), code), Delete(Span.of(statement)))
    return FixPlan(edits=edits, reasons=(_WHY,))


def _whole(module: Module, call: ast.Call) -> ast.expr:
    parent = module.parents.get(call)
    return parent if isinstance(parent, ast.Await) else call


def _tested(module: Module, asked: ast.expr) -> tuple[ast.If | None, bool]:
    """The `if` that tests only this, and whether its body runs when the flag is free."""
    test: ast.AST | None = module.parents.get(asked)
    free = False
    match test:
        case ast.UnaryOp(op=ast.Not()):
            free = True
        case ast.Compare(ops=[ast.Is() | ast.IsNot() as how], comparators=[ast.Constant(value=None)]):
            free = isinstance(how, ast.Is)
        case _:
            test = asked
    branch = module.parents.get(test)
    return (branch if isinstance(branch, ast.If) else None), free


def _following(module: Module, branch: ast.If) -> ast.stmt | None:
    """The next statement, if it runs only when this branch does not leave the function."""
    if not isinstance(branch.body[-1], ast.Return | ast.Raise | ast.Continue | ast.Break):
        return None
    around = module.parents.get(branch)
    for name in ("body", "orelse", "finalbody"):
        block = getattr(around, name, None)
        if isinstance(block, list) and branch in block:
            return next(iter(block[block.index(branch) + 1 :]), None)
    return None


def _written(statement: ast.stmt | None, *, awaited: bool) -> ast.Call | None:
    value = statement.value if isinstance(statement, ast.Expr) else None
    if isinstance(value, ast.Await) is not awaited:
        return None
    value = value.value if isinstance(value, ast.Await) else value
    return value if isinstance(value, ast.Call) else None


def _is_its_flag(write: ast.Call, read: ast.Call) -> bool:
    assert isinstance(read.func, ast.Attribute)
    return (
        isinstance(write.func, ast.Attribute)
        and bool(write.args)
        and ast.dump(write.func.value) == ast.dump(read.func.value)
        and ast.dump(write.args[0]) == ast.dump(read.args[0])
    )


def _taking(module: Module, write: ast.Call) -> str | None:
    """The write as SET NX. None if it would never expire, or does something else as well."""
    assert isinstance(write.func, ast.Attribute)
    client, names = source(module, write.func.value), keyword_names(write)
    if write.func.attr in ("setex", "psetex") and len(write.args) == 3 and not write.keywords:
        key, seconds, value = (source(module, argument) for argument in write.args)
        return f"{client}.set({key}, {value}, nx=True, {_LASTS[write.func.attr]}={seconds})"
    expires = (len(write.args) == 3 and not names & _UNTIL) or (
        len(write.args) == 2 and len(names & _UNTIL) == 1
    )
    if write.func.attr != "set" or not expires or names - _UNTIL or len(names) != len(write.keywords):
        return None
    return f"{client}.set{_with_last(arguments(module, write), 'nx=True')}"


def _with_last(told: str, last: str) -> str:
    """Adds an argument, on its own line if the others are."""
    inner = told[:-1].rstrip()
    if not inner.endswith(","):
        return f"{inner}, {last})"
    apart = re.match(r"\(\s*", told)
    assert apart is not None
    return f"{inner}{apart[0][1:] or ' '}{last},{told[len(inner) : -1]})"
