"""How a branch or a statement ends, and what a test finds missing."""

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


def end_of(node: ast.AST, value: ast.AST | None = None) -> tuple[int, int]:
    """The place where an expression's value exists. The header of a loop or a with ends before its body."""
    if isinstance(node, ast.For | ast.AsyncFor | ast.With | ast.AsyncWith) and value is not None:
        node = value
    return getattr(node, "end_lineno", None) or 0, getattr(node, "end_col_offset", None) or 0
