"""What the names of a function hold. Beside assignments: items of a dict, and attributes that a method assigns."""

from __future__ import annotations

import ast

from stampede_guard.audit.source.model import Function, Module, inside, owner_class
from stampede_guard.audit.source.words import names_in, path

Binding = tuple[ast.AST, list[str], ast.expr]


def bindings_of(module: Module, function: Function, read: ast.expr) -> list[Binding]:
    """The bindings of a function, with those that only show through the value of a read."""
    return [*function.bindings, *_kept(module, function, read), *_built(module, function, read)]


def beside_the_value(function: Function, read: ast.expr) -> set[str]:
    """`rows, version = get_cached(day)`: the value is tested, and the rest belongs to its key."""
    held = [
        names
        for _node, names, value in function.bindings
        if len(names) > 1 and (value.value if isinstance(value, ast.Await) else value) is read
    ]
    tests = [test.subject if isinstance(test, ast.Match) else test.test for test in function.tests]
    asked = {name for test in tests for name in names_in(test)}
    return {name for names in held if asked & {*names} for name in names} - asked


def _kept(module: Module, function: Function, read: ast.expr) -> list[Binding]:
    """`self._titles[language] = cache.get(key)`: afterwards the dict holds the value."""
    found: list[Binding] = []
    for store in function.stores:
        assigned = module.parents.get(store)
        holder = path(store.value)
        if isinstance(assigned, ast.Assign) and holder.startswith("self.") and inside(read, assigned.value):
            found.append((assigned, [holder], assigned.value))
    return found


def _built(module: Module, function: Function, read: ast.expr) -> list[Binding]:
    """`self._books = cache.get(key)`, `self.build_books()`: the method assigns the attribute, too."""
    got = {
        name
        for _node, names, value in function.bindings
        if inside(read, value)
        for name in names
        if name.startswith("self.")
    }
    cls = owner_class(function)
    if not got or cls is None:
        return []
    found: list[Binding] = []
    for call in function.calls:
        if not isinstance(module.parents.get(call), ast.Expr | ast.Await) or not path(call.func).startswith(
            "self."
        ):
            continue
        method = module.callee(call, function)
        made = [name for name in got if method in _makers(module, cls, name)] if method is not None else []
        if made and not names_in(ast.Tuple(elts=call.args, ctx=ast.Load())) & got:
            found.append((call, made, call))
    return found


def _makers(module: Module, cls: ast.ClassDef, name: str) -> list[Function | None]:
    return [where for _value, where in module.attributes.get((cls.name, name.partition(".")[2]), ())]
