"""A source text made into a `Module`, in one walk of its tree."""

from __future__ import annotations

import ast

from stampede_guard.audit.model import Function, Module, owner_class
from stampede_guard.audit.newer import parse

_TESTS = (ast.If, ast.While, ast.IfExp, ast.Assert, ast.Match)
_LOOPS = (ast.While, ast.For, ast.AsyncFor)


def build(path: str, source: str) -> Module:
    """Raises SyntaxError, ValueError, RecursionError or MemoryError for what `ast` cannot read."""
    module = Module(path=path, source=source, tree=parse(source))
    _Walker(module).walk()
    return module


# What no rule asks for by itself: most nodes of a tree.
_LEAVES = (ast.expr_context, ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.Constant)
_RECORDED = frozenset(
    (
        *(
            ast.Call,
            ast.Name,
            ast.Attribute,
            ast.Import,
            ast.ImportFrom,
            ast.Assign,
            ast.AnnAssign,
            ast.NamedExpr,
        ),
        *(ast.With, ast.AsyncWith, ast.Await, ast.Compare, ast.Subscript, ast.For, ast.AsyncFor, *_TESTS),
    )
)


def _children(node: ast.AST) -> list[ast.AST]:
    """The nodes below, the last first, without those that nothing is below and nobody looks for."""
    found: list[ast.AST] = []
    for name in node._fields:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found.extend(
                item for item in value if isinstance(item, ast.AST) and not isinstance(item, _LEAVES)
            )
        elif isinstance(value, ast.AST) and not isinstance(value, _LEAVES):
            found.append(value)
    found.reverse()
    return found


class _Walker:
    def __init__(self, module: Module) -> None:
        self.module = module

    def walk(self) -> None:
        """Depth first, in source order, without recursion: generated code nests deeper than the stack."""
        parents, record = self.module.parents, self.record
        stack: list[tuple[ast.AST, Function | None, ast.ClassDef | None]] = [(self.module.tree, None, None)]
        while stack:
            node, function, cls = stack.pop()
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                self._outside(node, function, cls, stack)
                made = Function(node=node, outer=function, cls=cls)
                self.module.functions.append(made)
                self.module.owners[node] = made
                for child in reversed(node.body):
                    parents[child] = node
                    stack.append((child, made, None))
                continue
            if isinstance(node, ast.ClassDef):
                self.module.classes.append(node)
                cls = node
            elif type(node) in _RECORDED:
                record(node, function, cls)
            for inner in _children(node):
                parents[inner] = node
                stack.append((inner, function, cls))

    def _outside(
        self,
        node: ast.FunctionDef | ast.AsyncFunctionDef,
        function: Function | None,
        cls: ast.ClassDef | None,
        stack: list[tuple[ast.AST, Function | None, ast.ClassDef | None]],
    ) -> None:
        """Decorators, defaults and annotations belong to whoever defines the function."""
        for child in (*node.decorator_list, node.args, node.returns):
            if child is not None:
                self.module.parents[child] = node
                stack.append((child, function, cls))

    def record(self, node: ast.AST, function: Function | None, cls: ast.ClassDef | None) -> None:
        module = self.module
        if isinstance(node, ast.Call):
            module.calls.append(node)
            if function:
                module.owners[node] = function
                function.calls.append(node)
        elif isinstance(node, ast.Name):
            if function and isinstance(node.ctx, ast.Load):
                function.loads.append((node.id, node))
        elif isinstance(node, ast.Attribute):
            if (
                function
                and isinstance(node.ctx, ast.Load)
                and isinstance(node.value, ast.Name)
                and node.value.id == "self"
            ):
                function.loads.append((f"self.{node.attr}", node))
        elif isinstance(node, ast.Import | ast.ImportFrom):
            self._import(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr):
            self._assign(node, function, cls)
        elif function:
            self._inner(node, function)
        if function and isinstance(node, _TESTS):
            function.tests.append(node)

    def _inner(self, node: ast.AST, function: Function) -> None:
        if isinstance(node, ast.With | ast.AsyncWith):
            function.withs.append(node)
            for item in node.items:
                if item.optional_vars is not None:
                    function.bindings.append((node, _targets(item.optional_vars), item.context_expr))
            if isinstance(node, ast.AsyncWith):
                function.awaits.append(node)
        elif isinstance(node, ast.Await):
            function.awaits.append(node)
        elif isinstance(node, ast.Compare):
            function.compares.append(node)
        elif isinstance(node, ast.Subscript):
            if not isinstance(node.ctx, ast.Load):
                function.stores.append(node)
        elif isinstance(node, _LOOPS):
            function.loops.append(node)
            if isinstance(node, ast.For | ast.AsyncFor):
                function.bindings.append((node, _targets(node.target), node.iter))

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
        self,
        node: ast.Assign | ast.AnnAssign | ast.NamedExpr,
        function: Function | None,
        cls: ast.ClassDef | None,
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
        if function and value is not None:
            names = [name for target in targets for name in _targets(target)]
            if names:
                function.bindings.append((node, names, value))

    def _attribute(self, cls: str, name: str, value: ast.expr | None, function: Function | None) -> None:
        if value is not None and not _empty(value):
            self.module.attributes.setdefault((cls, name), []).append((value, function))


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
