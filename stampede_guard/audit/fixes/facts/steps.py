"""The statements of a function that only gets, tests, computes, stores and returns, if all its callers get one answer.

A decorator gives every caller the stored value. So a hit must return exactly that value, decoded, and a miss must
return what was stored. Between the two, nothing may change it.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from stampede_guard.audit.caching.fills import Fill
from stampede_guard.audit.fixes.facts.repeats import may_repeat
from stampede_guard.audit.fixes.facts.stores import store_count
from stampede_guard.audit.source.model import inside
from stampede_guard.audit.source.words import names_in

# Of a text or bytes makes the value, and the reverse.
_DECODES = frozenset("loads unpackb model_validate_json model_validate".split())
_ENCODES = frozenset("dumps packb model_dump_json model_dump".split())
# Makes the same value of it, in the class that the program wants.
_CONVERTS = frozenset("int float str bool dict list".split())


@dataclass(frozen=True)
class Steps:
    """The statements of such a function. `cached` is the name that holds the result of the get."""

    before: tuple[ast.stmt, ...]
    read: ast.stmt | None
    test: ast.If
    write: ast.Expr
    rest: tuple[ast.stmt, ...]
    hit_first: bool
    cached: str


def steps_of(fill: Fill) -> Steps | None:
    body = without_docstring(fill.function.node.body)
    at = next((place for place, statement in enumerate(body) if isinstance(statement, ast.If)), None)
    if at is None:
        return None
    test = body[at]
    assert isinstance(test, ast.If)
    cached, negated = _tested(test.test)
    read = next((s for s in body[:at] if inside(fill.read.call, s)), None)
    if cached is None or test.orelse or not _gets(read, test, cached, fill):
        return None
    before, after = (*body[:at],), body[at + 1 :]
    if any(not isinstance(s, ast.Assign) for s in body[:at] if s is not read):
        return None
    if not negated:
        write = _write(after, fill)
        right = write is not None and _answers(test.body, after, cached, fill)
        return Steps(before, read, test, write, (), True, cached) if right and write is not None else None
    write = _write(test.body, fill)
    if write is None:
        return None
    if isinstance(test.body[-1], ast.Return):
        right = _answers(after, test.body, cached, fill)
        return Steps(before, read, test, write, tuple(after), False, cached) if right else None
    if any(isinstance(n, ast.Return) for s in test.body for n in ast.walk(s)):
        return None  # this answer was not stored
    right = _answers(after, [*test.body, *after], cached, fill) and cached in bound_by(test.body)
    return Steps(before, read, test, write, (), False, cached) if right else None


def without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    first = body[0]
    is_doc = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    return body[1:] if is_doc else body


def bound_by(statements: list[ast.stmt]) -> set[str]:
    """The names that these statements, not those inside them, assign."""
    targets = [target for s in statements if isinstance(s, ast.Assign) for target in s.targets]
    return {name for target in targets for name in names_in(target)}


def bare(value: ast.expr) -> ast.expr:
    return value.value if isinstance(value, ast.Await) else value


def _tested(test: ast.expr) -> tuple[str | None, bool]:
    """The tested name, and whether the branch is taken on a miss."""
    match test:
        case ast.Name(id=name):
            return name, False
        case ast.NamedExpr(target=ast.Name(id=name)):
            return name, False
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _tested(operand)[0], True
        case ast.Compare(left=left, ops=[ast.Is() | ast.Eq()], comparators=[ast.Constant(value=None)]):
            return _tested(left)[0], True
        case ast.Compare(left=left, ops=[ast.IsNot() | ast.NotEq()], comparators=[ast.Constant(value=None)]):
            return _tested(left)[0], False
        case _:
            return None, False


def _gets(read: ast.stmt | None, test: ast.If, cached: str, fill: Fill) -> bool:
    """`cached = await redis.get(key)`, before the test or in it."""
    if read is None:
        named = [n for n in ast.walk(test.test) if isinstance(n, ast.NamedExpr)]
        return len(named) == 1 and bare(named[0].value) is fill.read.call
    match read:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return name == cached and bare(value) is fill.read.call
        case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
            return name == cached and bare(value) is fill.read.call
        case _:
            return False


def _write(statements: list[ast.stmt], fill: Fill) -> ast.Expr | None:
    found = [s for s in statements if isinstance(s, ast.Expr) and bare(s.value) is fill.write.call]
    return found[0] if len(found) == 1 else None


def _answers(hit: list[ast.stmt], miss: list[ast.stmt], cached: str, fill: Fill) -> bool:
    """Whether the first statements return what was cached, and the others what they have stored."""
    if len(hit) != 1 or not isinstance(hit[0], ast.Return):
        return False
    decodes = _decodes(hit[0].value, cached)
    encodes = _encodes(miss, fill)
    return decodes is not None and decodes == encodes


def _decodes(value: ast.expr | None, cached: str) -> bool | None:
    """Whether an answer decodes the cached value. None if it is anything else than that value."""
    match value:
        case ast.Name(id=name):
            return False if name == cached else None
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[inner], keywords=[]):
            known = _decodes(inner, cached)
            plain = isinstance(value.func, ast.Name) and name in _CONVERTS
            return None if known is None or not (plain or name in _DECODES) else known or name in _DECODES
        case ast.Call(func=ast.Attribute(attr="decode", value=inner), args=args, keywords=[]):
            plain = all(isinstance(argument, ast.Constant) for argument in args)
            return _decodes(inner, cached) if plain else None
        case _:
            return None


def _encodes(miss: list[ast.stmt], fill: Fill) -> bool | None:
    """Whether a miss encodes the value that it returns. None if it returns anything else than what it stores."""
    final = miss[-1] if miss else None
    exits = [n for s in miss for n in ast.walk(s) if isinstance(n, ast.Return)]
    if not isinstance(final, ast.Return) or not isinstance(final.value, ast.Name) or len(exits) != 1:
        return None
    value, encodes, chain = fill.write.value, False, [_place(miss, fill.write.call)]
    while not (isinstance(value, ast.Name) and value.id == final.value.id):
        match value:
            case ast.Name(id=name):
                made = next((s for s in miss if name in bound_by([s])), None)
                if not isinstance(made, ast.Assign) or store_count(fill.function, name) != 1:
                    return None
                if not isinstance(made.targets[0], ast.Name):
                    return None
                value = made.value
                chain.append(miss.index(made))
            case ast.Call(func=ast.Attribute(attr="encode", value=inner), args=[]):
                value = inner
            case ast.Call(func=ast.Attribute(attr="model_dump_json" | "model_dump", value=inner), args=[]):
                value, encodes = inner, True
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[inner]) if (
                name in _ENCODES or (name == "str" and isinstance(value.func, ast.Name))
            ):
                value, encodes = inner, encodes or name in _ENCODES
            case _:
                return None
    between = [s for place, s in enumerate(miss[:-1]) if place > min(chain) and place not in chain]
    unchanged = all(isinstance(s, ast.Expr | ast.Pass) and may_repeat(fill, s) for s in between)
    return encodes if unchanged else None


def _place(statements: list[ast.stmt], node: ast.AST) -> int:
    return next((i for i, statement in enumerate(statements) if inside(node, statement)), len(statements))
