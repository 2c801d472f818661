"""Fixes of one expression: a miss test (SG205), a lock's lifetime (SG301), KEYS (SG403)."""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.caching.fills import Fill, fills
from stampede_guard.audit.fixes.facts.texts import source
from stampede_guard.audit.plan import Edit, FixPlan, Iterate, NoFix, Replace, Span, Tell, Wrap
from stampede_guard.audit.rule import Violation
from stampede_guard.audit.source.model import Module
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import is_cachy, last, names_in, path

LEASE = 60  # seconds; a guess, and the fix says so
# Clients whose `get` returns None for a miss, and only for a miss. Redis clients are left out: they return bytes, and
# a decoder may stand between.
_NONE_IS_A_MISS = ("django.core.cache", "aiocache", "cashews", "diskcache")

_AT_ONCE = re.compile(r"^(?:redis|valkey|fakeredis|django_redis)\.")
_LATER = re.compile(r"async|aio|pipe")


def asks_for_none(module: Module, hit: Violation) -> FixPlan | None:
    """`if not count:` becomes `if count is None:`. Raises `NoFix` if an empty value is stored after a failure."""
    test = hit.node
    assert isinstance(test, ast.expr)
    fill = _asked(module, test)
    if fill is None:
        return None
    negated = isinstance(test, ast.UnaryOp)
    subject = test.operand if isinstance(test, ast.UnaryOp) else test
    text = source(module, subject)
    if isinstance(subject, ast.NamedExpr):
        text = f"({text})"
    if _stores_nothing(fill):
        raise NoFix("an empty value that stands for a failure would be served for its lifetime")
    if isinstance(fill.read.call, ast.Call) and isinstance(fill.read.call.func, ast.Attribute):
        if origin(module, fill.read.call.func.value, fill.function).startswith("dogpile."):
            raise NoFix("a miss is dogpile's NO_VALUE, and not None: compare with that")
    # No code shows whether an empty list means "none" or "nobody may", so this is never safe.
    reasons = ["a stored 0, '' or [] would be served for its lifetime: check that it is a right answer"]
    if not _misses_with_none(module, fill):
        reasons.append("check that a miss returns None, and nothing else does")
    code = f"{text} is None" if negated else f"{text} is not None"
    return FixPlan(edits=(Replace(Span.of(test), code),), reasons=tuple(reasons))


def _asked(module: Module, test: ast.expr) -> Fill | None:
    """The fill whose value is tested, if its get names no other default."""
    for fill in fills(module):
        call = fill.read.call
        tested = any(getattr(branch, "test", None) is test for branch in fill.function.tests)
        if not tested or not isinstance(call, ast.Call) or fill.read.helper:
            continue
        named = {name for _n, names, value in fill.function.bindings if _holds(value, call) for name in names}
        if len(call.args) == 1 and not call.keywords and names_in(test) & named:
            return fill
    return None


def _holds(value: ast.expr, call: ast.Call) -> bool:
    return (value.value if isinstance(value, ast.Await) else value) is call


def _stores_nothing(fill: Fill) -> bool:
    """Whether the stored value may be an empty literal: `except ApiError: rates = {}`."""
    stored = names_in(fill.write.value)
    bound = [value for _n, names, value in fill.function.bindings if set(names) & stored]
    return any(
        (isinstance(value, ast.Constant) and not value.value)
        or (isinstance(value, ast.List | ast.Tuple | ast.Set) and not value.elts)
        or (isinstance(value, ast.Dict) and not value.keys)
        for value in bound
    )


def _misses_with_none(module: Module, fill: Fill) -> bool:
    call = fill.read.call
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    if call.func.attr not in ("get", "aget"):
        return False
    made = origin(module, call.func.value, module.owners.get(call)).lower()
    return any(name in made for name in _NONE_IS_A_MISS)


def expiring_lock(module: Module, hit: Violation) -> FixPlan | None:
    """`set(..., nx=True)` gets `ex=60`; `setnx` becomes such a `set`."""
    call = hit.node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or not call.args:
        return None
    added = {"set": f"ex={LEASE}", "setnx": f"nx=True, ex={LEASE}"}.get(call.func.attr)
    if added is None:
        return None
    edits: tuple[Edit, ...] = (Tell(Span.of(call), added, "set"),)
    if call.func.attr == "setnx":
        edits += _with_its_answer(module, call)
    return FixPlan(
        edits=edits,
        reasons=(f"{LEASE} seconds are a guess: a holder that takes longer loses the lock to another",),
    )


def _with_its_answer(module: Module, call: ast.Call) -> tuple[Edit, ...]:
    """`setnx` answers False where `set(nx=True)` answers None. Only a plain test cannot tell them apart."""
    parent = module.parents.get(call)
    whole = parent if isinstance(parent, ast.Await) else call
    around = module.parents.get(whole)
    if isinstance(around, ast.Expr) or _is_a_test(module, whole):
        return ()
    if whole is call and not _answers_at_once(module, call):
        raise NoFix("setnx answers False where set(nx=True) answers None, and its answer may be a coroutine")
    return (Wrap(Span.of(whole), "bool"),)


def _is_a_test(module: Module, node: ast.expr) -> bool:
    """`if x:`, `not x`, `bool(x)`, `if a and x:`."""
    match around := module.parents.get(node):
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) | ast.Assert(test=test):
            return test is node
        case ast.UnaryOp(op=ast.Not()) | ast.Call(func=ast.Name(id="bool")):
            return True
        case ast.BoolOp():
            return _is_a_test(module, around)
        case _:
            return False


def _answers_at_once(module: Module, call: ast.Call) -> bool:
    """Whether the call gives its answer, not a coroutine or a pipeline."""
    assert isinstance(call.func, ast.Attribute)
    function, around = module.owners.get(call), module.parents.get(call)
    if isinstance(around, ast.Attribute):
        return False
    made = origin(module, call.func.value, function).lower()
    if _AT_ONCE.search(made):
        return not _LATER.search(made)
    asked = isinstance(around, ast.Compare | ast.Match)
    return asked and not made and (function is None or not function.is_async)


def scan(module: Module, hit: Violation) -> FixPlan | None:
    """`for key in redis.keys(p)` becomes `... in redis.scan_iter(p)`; elsewhere the keys are collected in a list."""
    call = hit.node
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.func.attr != "keys":
        return None
    receiver = call.func.value
    made = origin(module, receiver, module.owners.get(call)).lower()
    if not any(name in made for name in ("redis", "valkey")) and (made or not is_cachy(last(path(receiver)))):
        return None
    pattern = source(module, call.args[0]) if call.args else ""
    if call.keywords:
        pattern = f"match={source(module, call.keywords[0].value)}"
    scanned = f"{source(module, receiver)}.scan_iter({pattern})"
    parent = module.parents.get(call)
    whole = parent if isinstance(parent, ast.Await) else call
    around = module.parents.get(whole)
    edits: tuple[Edit, ...]
    if isinstance(around, ast.For) and around.iter is whole:
        edits = (Replace(Span.of(whole), scanned),)
        if isinstance(whole, ast.Await):
            edits = (Iterate(Span.of(whole)), *edits)
    elif isinstance(whole, ast.Await):
        edits = (Replace(Span.of(whole), f"[key async for key in {scanned}]"),)
    else:
        edits = (Replace(Span.of(whole), f"list({scanned})"),)
    return FixPlan(
        edits=edits,
        reasons=("SCAN sees keys that appear and disappear during the scan, and may return a key twice",),
    )
