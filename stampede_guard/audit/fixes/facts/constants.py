"""Names of a file that have one meaning from their line on: what a decorator or a function of the file surely sees."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from stampede_guard.audit.fixes.facts.stores import named
from stampede_guard.audit.source.model import Module

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)


def settled(module: Module, name: str) -> ast.expr | None:
    """The value of a name that the module assigns once, in any case. None: a branch or a function may give another."""
    if _counts(module)[name] != 1:
        return None
    for statement in module.tree.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=bound)], value=value) if bound == name:
                return value
            case ast.AnnAssign(target=ast.Name(id=bound), value=ast.expr() as value) if bound == name:
                return value
            case _:
                pass
    return None


def settled_imports(module: Module) -> Iterator[tuple[str, str, int]]:
    """Names that the module imports in any case, what they mean, and their lines. Not those that a function imports, or
    only a type checker.
    """
    for statement in module.tree.body:
        if not isinstance(statement, ast.Import | ast.ImportFrom):
            continue
        base = ""
        if isinstance(statement, ast.ImportFrom):
            base = "." * statement.level + (statement.module or "")
        for alias in statement.names:
            bound = alias.asname or alias.name.partition(".")[0]
            meant = alias.name if alias.asname or base else bound
            if _counts(module)[bound] == 1:
                yield bound, f"{base}.{meant}" if base else meant, statement.lineno


def _counts(module: Module) -> Counter[str]:
    """How often the module binds each name. What a function declares as global counts as well."""
    known: Counter[str] | None = module.memo.get("bound")
    if known is None:
        known = module.memo["bound"] = Counter(name for node in _outside(module.tree) for name in named(node))
        for function in module.functions:
            known.update(function.globals)
    return known


def _outside(tree: ast.Module) -> Iterator[ast.AST]:
    """The nodes outside functions and classes, and those themselves."""
    stack: list[ast.AST] = [*tree.body]
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _SCOPES):
            stack += ast.iter_child_nodes(node)
