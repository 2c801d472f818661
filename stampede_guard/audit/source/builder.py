"""From source text to a `Module`: one walk over the statements, and one over each body that a rule needs."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any

from stampede_guard.audit.source.model import Body, Function, Module, owner_class
from stampede_guard.audit.source.newer import parse

# This is the audit's innermost loop, so it compares types: `isinstance` costs twice as much, and `ast` makes no others.
_TESTS = frozenset((ast.If, ast.While, ast.IfExp, ast.Assert, ast.Match))
_LOOPS = frozenset((ast.While, ast.For, ast.AsyncFor))
_DEFS = frozenset((ast.FunctionDef, ast.AsyncFunctionDef))
_Place = tuple[ast.AST, Function | None, ast.ClassDef | None]

# Node types that no rule uses directly: most nodes of a tree.
_LEAVES = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop)
# Values of fields that are no such nodes, or no nodes at all.
_NO_CHILDREN = frozenset(
    (*(kind for leaf in _LEAVES for kind in leaf.__subclasses__()), ast.Constant, type(None), str, int, bool)
)
# Fields that contain only those.
_WITHOUT = frozenset(
    "ctx op ops id attr arg asname level module kind conversion simple is_async type_comment".split()
)
_RECORDED = frozenset(
    (
        *(ast.Call, ast.Name, ast.Attribute, ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Subscript),
        *(ast.With, ast.AsyncWith, ast.Await, ast.Compare, ast.For, ast.AsyncFor, *_TESTS),
    )
)
# Statements that contain statements, with the fields that contain them.
_BLOCKS: dict[type, tuple[str, ...]] = {
    **dict.fromkeys((ast.If, ast.For, ast.AsyncFor, ast.While), ("body", "orelse")),
    **dict.fromkeys((ast.With, ast.AsyncWith, ast.ClassDef, ast.ExceptHandler, ast.match_case), ("body",)),
    **dict.fromkeys((ast.Try, ast.TryStar), ("body", "handlers", "orelse", "finalbody")),
    ast.Match: ("cases",),
    ast.Module: ("body",),
}


class _FieldsByType(dict[type, tuple[str, ...]]):
    """The fields of each type of node that may contain others."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        found = self[kind] = tuple(name for name in kind._fields if name not in _WITHOUT)
        return found


_FIELDS = _FieldsByType()


def build(path: str, source: str) -> Module:
    """Raises SyntaxError, ValueError, RecursionError or MemoryError if `ast` cannot read the source."""
    tree = parse(source)
    reader = _Reader(tree)
    module = Module(path, source, tree, reader, reader.parents, reader.owners)
    _Survey(module).walk()
    return module


class _Survey:
    """Reads statements only: functions, classes, imports, and the values that names and attributes get."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def walk(self) -> None:
        """Depth first, in source order, without recursion: generated code nests deeper than the stack."""
        module, parents = self.module, self.module.parents
        stack: list[_Place] = [(module.tree, None, None)]
        while stack:
            node, function, cls = stack.pop()
            kind = type(node)
            blocks = _BLOCKS.get(kind)
            if kind is ast.Assign or kind is ast.AnnAssign:
                self._assign(node, function, cls)  # type: ignore[arg-type]
            elif kind in _DEFS:
                function, cls = self._function(node, function, cls), None  # type: ignore[arg-type]
                blocks = ("body",)
            elif isinstance(node, ast.ClassDef):
                module.classes.append(node)
                cls = node
            elif isinstance(node, ast.Import | ast.ImportFrom):
                self._import(node)
            elif kind is ast.Global and function is not None:
                for around in function.chain():
                    around.globals.update(node.names)  # type: ignore[attr-defined]
            if blocks is not None:
                inner = [child for name in blocks for child in getattr(node, name)]
                for child in reversed(inner):
                    parents[child] = node
                    stack.append((child, function, cls))
        if ":=" in module.source:
            self._named()

    def _function(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef, outer: Function | None, cls: ast.ClassDef | None
    ) -> Function:
        made = Function(self.module.reader, node, outer, cls)
        self.module.functions.append(made)
        self.module.owners[node] = made
        for decorator in node.decorator_list:
            self.module.parents[decorator] = node
        return made

    def _named(self) -> None:
        """`if (name := value):` outside of functions."""
        for node in _outside(self.module):
            if isinstance(node, ast.NamedExpr) and not _empty(node.value):
                self.module.values.setdefault(node.target.id, node.value)

    def _import(self, node: ast.Import | ast.ImportFrom) -> None:
        imports = self.module.imports
        if isinstance(node, ast.Import):
            for alias in node.names:
                imports[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        else:
            base = "." * node.level + (node.module or "")
            for alias in node.names:
                imports[alias.asname or alias.name] = f"{base}.{alias.name}" if base else alias.name

    def _assign(
        self, node: ast.Assign | ast.AnnAssign, function: Function | None, cls: ast.ClassDef | None
    ) -> None:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        value = node.value
        annotation = node.annotation if isinstance(node, ast.AnnAssign) else None
        for target in targets:
            if isinstance(target, ast.Attribute) and isinstance(target.value, ast.Name):
                if target.value.id in ("self", "cls") and (owner := owner_class(function)) is not None:
                    self._attribute(owner.name, target.attr, value or annotation, function)
            elif isinstance(target, ast.Name) and function is None:
                known = value if value is not None and not _empty(value) else annotation or value
                if known is not None and cls is None:
                    self.module.values[target.id] = known
                elif known is not None and cls is not None:
                    self._attribute(cls.name, target.id, known, None)

    def _attribute(self, cls: str, name: str, value: ast.expr | None, function: Function | None) -> None:
        if value is not None and not _empty(value):
            self.module.attributes.setdefault((cls, name), []).append((value, function))


class _Reader:
    """Walks bodies, each at most once. It has no reference to a module, so it does not keep a finished tree alive."""

    def __init__(self, tree: ast.Module) -> None:
        self.tree = tree
        self.parents: dict[ast.AST, ast.AST] = {}
        self.owners: dict[ast.AST, Function] = {}

    def body_of(self, function: Function) -> Body:
        body, owners = Body(), self.owners
        for node in self._within(function.node, function.node.body):
            if type(node) in _RECORDED:
                _record(node, body)
        for call in body.calls:
            owners[call] = function
        return body

    def calls_outside(self) -> list[ast.Call]:
        """Calls outside all functions: those of the module, of classes, and of decorators of either."""
        return [node for node in self._within(self.tree, self.tree.body) if isinstance(node, ast.Call)]

    def _within(self, around: ast.AST, body: list[ast.stmt]) -> Iterator[ast.AST]:
        parents = self.parents
        stack: list[ast.AST] = []
        for statement in reversed(body):
            parents[statement] = around
            stack.append(statement)
        while stack:
            node = stack.pop()
            for inner in _head(node) if type(node) in _DEFS else _children(node):  # type: ignore[arg-type]
                parents[inner] = node
                stack.append(inner)
            yield node


def _outside(module: Module) -> Iterator[ast.AST]:
    stack: list[ast.AST] = [module.tree]
    while stack:
        node = stack.pop()
        yield node
        stack += _head(node) if type(node) in _DEFS else _children(node)  # type: ignore[arg-type]


def _head(node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.AST]:
    """Decorators, defaults and annotations run in the scope that defines the function."""
    head: list[ast.AST] = [*node.decorator_list, node.args]
    return [*head, node.returns] if node.returns is not None else head


def _children(node: ast.AST) -> list[ast.AST]:
    """The child nodes, in reverse order, without leaves that no rule uses."""
    found: list[Any] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name, None)
        if value.__class__ is list:
            found.extend([item for item in value if item.__class__ not in _NO_CHILDREN])
        elif value.__class__ not in _NO_CHILDREN:
            found.append(value)
    found.reverse()
    return found


def _record(node: ast.AST, body: Body) -> None:
    kind = type(node)
    if kind is ast.Name:
        if node.ctx.__class__ is ast.Load:  # type: ignore[attr-defined]
            body.loads.append((node.id, node))  # type: ignore[attr-defined, arg-type]
    elif kind is ast.Attribute:
        _record_attribute(node, body)  # type: ignore[arg-type]
    elif kind is ast.Call:
        body.calls.append(node)  # type: ignore[arg-type]
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
        if node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name for target in targets for name in _targets(target)]
            if names:
                body.bindings.append((node, names, node.value))
    else:
        _record_more(node, body)
    if kind in _TESTS:
        body.tests.append(node)  # type: ignore[arg-type]


def _record_attribute(node: ast.Attribute, body: Body) -> None:
    if isinstance(node.ctx, ast.Load) and isinstance(node.value, ast.Name) and node.value.id == "self":
        body.loads.append((f"self.{node.attr}", node))


def _record_more(node: ast.AST, body: Body) -> None:
    kind = type(node)
    if isinstance(node, ast.With | ast.AsyncWith):
        body.withs.append(node)
        for item in node.items:
            if item.optional_vars is not None:
                body.bindings.append((node, _targets(item.optional_vars), item.context_expr))
        if isinstance(node, ast.AsyncWith):
            body.awaits.append(node)
    elif isinstance(node, ast.Await):
        body.awaits.append(node)
    elif isinstance(node, ast.Compare):
        body.compares.append(node)
    elif isinstance(node, ast.Subscript):
        if not isinstance(node.ctx, ast.Load):
            body.stores.append(node)
    elif kind in _LOOPS:
        body.loops.append(node)  # type: ignore[arg-type]
        if isinstance(node, ast.For | ast.AsyncFor):
            body.bindings.append((node, _targets(node.target), node.iter))


def _empty(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _targets(target: ast.expr) -> list[str]:
    match target:
        case ast.Name(id=name):
            return [name]
        case ast.Attribute(value=ast.Name(id="self" | "cls" as owner), attr=attr):
            return [f"{owner}.{attr}"]
        case ast.Tuple(elts=elements) | ast.List(elts=elements):
            return [name for element in elements for name in _targets(element)]
        case ast.Starred(value=value):
            return _targets(value)
        case _:
            return []
