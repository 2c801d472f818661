"""How a branch ends, and what its test finds missing."""

from __future__ import annotations

import ast


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
