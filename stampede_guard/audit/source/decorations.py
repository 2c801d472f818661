"""Decorators by the name they were imported as."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.origins import origin


@dataclass(frozen=True, eq=False)
class Decoration:
    """One decorator of one function. `name` is the qualified name if the import shows it:
    "fastapi_cache.decorator.cache".
    """

    function: Function
    node: ast.expr
    call: ast.Call | None
    name: str
    # The constructor of the object before the last dot: `@memory.cache` with `memory = joblib.Memory(...)`.
    owner: str

    @property
    def tail(self) -> str:
        return self.name.replace("()", "").rpartition(".")[2]

    def keyword(self, name: str) -> ast.expr | None:
        if self.call is None:
            return None
        return next((keyword.value for keyword in self.call.keywords if keyword.arg == name), None)


def decorations(module: Module) -> list[Decoration]:
    known: list[Decoration] | None = module.memo.get("decorations")
    if known is None:
        known = list(_all(module))
        module.memo["decorations"] = known
    return known


def _all(module: Module) -> Iterator[Decoration]:
    for function in module.functions:
        for node in function.node.decorator_list:
            yield _one(module, function, node)


def _one(module: Module, function: Function, node: ast.expr) -> Decoration:
    call = node if isinstance(node, ast.Call) else None
    target = call.func if call is not None else node
    name = module.resolve(target)
    if call is not None and name.rpartition(".")[2] == "method_decorator" and call.args:
        return _one_inner(module, function, node, call.args[0])
    owner = origin(module, target.value, function.outer) if isinstance(target, ast.Attribute) else ""
    if call is not None and isinstance(target, ast.Name) and target.id in module.values:
        name = origin(module, module.values[target.id], None) or name
    elif call is None and isinstance(target, ast.Name) and isinstance(module.values.get(target.id), ast.Call):
        made = module.values[target.id]
        if isinstance(made, ast.Call):
            return Decoration(function, node, made, module.resolve(made.func), "")
    return Decoration(function, node, call, name, owner)


def applied(module: Module, *names: str) -> Iterator[Decoration]:
    """Decorators with these names that are called by hand: `cache.cached(60)(view)`. The function is the one around."""
    for call in module.calls_of(*names):
        function = module.owners.get(call)
        if function is None or not isinstance(call.func, ast.Attribute):
            continue
        if call in function.node.decorator_list or not _is_applied(module, function, call):
            continue
        owner = origin(module, call.func.value, function)
        yield Decoration(function, call, call, module.resolve(call.func), owner)


def _is_applied(module: Module, function: Function, call: ast.Call) -> bool:
    """Whether the result is called with a function, at once or by its local name."""
    around = module.parents.get(call)
    if isinstance(around, ast.Call):
        return around.func is call and bool(around.args)
    held = {
        name
        for _node, names, value in function.bindings
        if value is call and len(names) == 1
        for name in names
    }
    return any(
        isinstance(used.func, ast.Name) and used.func.id in held and len(used.args) == 1
        for used in function.calls
    )


def _one_inner(module: Module, function: Function, node: ast.expr, inner: ast.expr) -> Decoration:
    call = inner if isinstance(inner, ast.Call) else None
    name = module.resolve(call.func if call is not None else inner)
    return Decoration(function, node, call, name, "")


def is_true(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is True


def is_false(node: ast.expr | None) -> bool:
    return isinstance(node, ast.Constant) and node.value is False


def receiver_of(decoration: Decoration) -> ast.expr | None:
    """The object before the last dot, if the decorator is its method."""
    target = decoration.call.func if decoration.call is not None else decoration.node
    return target.value if isinstance(target, ast.Attribute) else None
