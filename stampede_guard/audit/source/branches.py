"""How a branch or a statement ends, and what a test finds missing."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from stampede_guard.audit.source.words import text_of

_MISSES = ("KeyError", "Miss", "NotFound", "DoesNotExist")
# What reading a part of None raises: `None.decode()`, `loads(None)`.
_OF_NONE = ("AttributeError", "TypeError", "Exception")
_UNPACKERS = frozenset(
    "loads int float unpackb decode b64decode decompress parse_raw model_validate_json".split()
)


def leaves(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Return | ast.Raise | ast.Continue | ast.Break)


def missing(test: ast.expr) -> str | None:
    """The name that a test finds missing: `not user`, `user is None`."""
    match test:
        case ast.UnaryOp(op=ast.Not(), operand=ast.Name(id=name)):
            return name
        case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
            return name
        case _:
            return None


def raises_on_a_miss(read: ast.AST, around: Iterable[ast.AST]) -> bool:
    """`try: return cache.get(key) / except KeyError: compute`, also if the value is unpacked at once:
    `try: return loads(cache.get(key)) / except TypeError: compute`. `around` are the nodes around the read.
    """
    unpacked, inner = False, read
    for node in around:
        if isinstance(node, ast.Try) and any(inner is statement for statement in node.body):
            caught = " ".join(text_of(handler.type) or "Exception" for handler in node.handlers)
            if any(word in caught for word in _MISSES):
                return True
            return unpacked and any(word in caught for word in _OF_NONE) and _chooses(node)
        unpacked = unpacked or _unpacks(node, inner)
        inner = node
    return False


def _chooses(tried: ast.Try) -> bool:
    """Whether a hit returns, or the handler makes the value. Otherwise it is a default: `except TypeError: n = 0`."""
    if any(isinstance(node, ast.Return) for part in (*tried.body, *tried.orelse) for node in ast.walk(part)):
        return True
    bound = _bound(tried.body)
    return bool(bound & _bound([part for handler in tried.handlers for part in handler.body], made=True))


def _bound(statements: list[ast.stmt], *, made: bool = False) -> set[str]:
    """The names that statements assign; with `made`, only those that a call makes."""
    return {
        target.id
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, ast.Assign)
        and (not made or any(isinstance(inner, ast.Call) for inner in ast.walk(node.value)))
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _unpacks(node: ast.AST, inner: ast.AST) -> bool:
    """Whether an expression needs the value of another one, and fails if it is None."""
    match node:
        case ast.Attribute(value=value) | ast.Subscript(value=value):
            return value is inner
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[first, *_]):
            return first is inner and name in _UNPACKERS
        case _:
            return False


def end_of(node: ast.AST, value: ast.AST | None = None) -> tuple[int, int]:
    """The place where an expression's value exists. The header of a loop or a with ends before its body."""
    if isinstance(node, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith) and value is not None:
        node = value
    return getattr(node, "end_lineno", None) or 0, getattr(node, "end_col_offset", None) or 0
