"""Pieces of a file's text, unchanged, for fixes that move them."""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.source.model import Module


def source(module: Module, node: ast.expr) -> str:
    """The text of an expression in the file."""
    return ast.get_source_segment(module.source, node) or ast.unparse(node)


def arguments(module: Module, call: ast.Call) -> str:
    """The text of a call's arguments, with their parentheses."""
    return source(module, call)[len(source(module, call.func)) :].lstrip()


def dedented(module: Module, node: ast.expr, code: str) -> str | None:
    """Removes the indentation of an expression with several lines, because LibCST indents it with the block. None
    if a string literal in it would change.
    """
    if "\n" not in code:
        return code
    if any(
        isinstance(inner, ast.Constant | ast.JoinedStr) and inner.lineno != inner.end_lineno
        for inner in ast.walk(node)
    ):
        return None
    return re.sub(rf"\n[ \t]{{0,{getattr(module.statement(node), 'col_offset', 0)}}}", "\n", code)
