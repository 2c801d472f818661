"""Pieces of a file's text, as they are written, for fixes that move them."""

from __future__ import annotations

import ast
import re

from stampede_guard.audit.model import Module


def source(module: Module, node: ast.expr) -> str:
    """The text of an expression as it is written."""
    return ast.get_source_segment(module.source, node) or ast.unparse(node)


def arguments(module: Module, call: ast.Call) -> str:
    """A call's arguments with their parentheses."""
    return source(module, call)[len(source(module, call.func)) :].lstrip()


def dedented(module: Module, node: ast.expr, code: str) -> str | None:
    """What goes on over several lines, as LibCST wants it: it indents that as the block is. None: a text does."""
    if "\n" not in code:
        return code
    if any(
        isinstance(inner, ast.Constant | ast.JoinedStr) and inner.lineno != inner.end_lineno
        for inner in ast.walk(node)
    ):
        return None
    return re.sub(rf"\n[ \t]{{0,{getattr(module.statement(node), 'col_offset', 0)}}}", "\n", code)
