"""Where a function gives its names a value, in whatever way."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stampede_guard.audit.source.model import Function, position


def stored_before(function: Function, place: ast.AST) -> set[str]:
    """The names that the function binds, changes or removes before a place."""
    return {name for name, node in _stores(function.node) if position(node) < position(place)}


def store_count(function: Function, name: str) -> int:
    """How often the function binds, changes or removes a name. Once: its value is known."""
    return sum(stored == name for stored, _node in _stores(function.node))


def _stores(function: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for statement in getattr(function, "body", ()):
        for node in ast.walk(statement):
            for name in named(node):
                yield name, node


def named(node: ast.AST) -> Iterator[str]:
    """The names to which a node itself gives a value, or takes it."""
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield name
        case ast.MatchMapping(rest=str(name)):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from ((alias.asname or alias.name).partition(".")[0] for alias in names)
        case ast.Global(names=names) | ast.Nonlocal(names=names):
            yield from names  # others may change them
        case _:
            pass
