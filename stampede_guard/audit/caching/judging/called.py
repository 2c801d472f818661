"""The function that a call runs, in the file or in a file of the project that it imports."""

from __future__ import annotations

import ast
import sys

from stampede_guard.audit.caching.imported import built, follow
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.origins import origin
from stampede_guard.audit.source.words import last, path


def called(
    asked: Module, module: Module, function: Function, call: ast.Call
) -> tuple[Module, Function] | None:
    """The function that a call runs, in this file or in one that it imports: `load(...)`, `orders.load(...)`,
    `Order.open(...)`, `OrderService(db).load()`, `service.load()` of a local or a declared `service`,
    `self.service.load()`.
    """
    own = module.callee(call, function)
    if own is not None:
        return module, own
    dotted = path(call.func)
    if "(" not in dotted and dotted.partition(".")[0] in module.imports:
        owner, _, name = module.resolve(call.func).rpartition(".")
        return _elsewhere(asked, module, owner, name)
    if not isinstance(call.func, ast.Attribute):
        return None
    if path(call.func).startswith("self."):
        kept = origin(module, call.func.value, function).removesuffix("()")
        owner, _, cls = kept.rpartition(".")
        if not cls[:1].isupper():
            return None
        return _method(module, kept, call.func.attr) or _elsewhere(asked, module, kept, call.func.attr)
    made = _class_of(module, function, call)
    if made is None or not last(path(made))[:1].isupper():
        return None
    return _method(module, path(made), call.func.attr) or _elsewhere(
        asked, module, module.resolve(made), call.func.attr
    )


def _class_of(module: Module, function: Function, call: ast.Call) -> ast.expr | None:
    """The class of the object whose method is called, by its constructor or its annotation."""
    match call.func:
        case ast.Attribute(value=ast.Call(func=made)):
            return made
        case ast.Attribute(value=ast.Name(id=name)):
            bound = [value for _node, names, value in function.bindings if names == [name]]
            value = bound[-1] if bound else module.values.get(name)
            if isinstance(value, ast.Call):
                return value.func
            declared = next((a.annotation for a in function.arguments if a.arg == name), None)
            match declared:
                case ast.Subscript(value=outer, slice=ast.Tuple(elts=[first, *_rest])):
                    return first if last(path(outer)) == "Annotated" else None
                case _:
                    return declared
        case _:
            return None


def _method(module: Module, cls: str, name: str) -> tuple[Module, Function] | None:
    found = [
        f for f in module.functions_named(name) if (f.cls.name if f.cls else "") == cls and f.outer is None
    ]
    return (module, found[0]) if len(found) == 1 else None


def _elsewhere(asked: Module, module: Module, owner: str, name: str) -> tuple[Module, Function] | None:
    """A function of another file of the project; `owner` is a module, or a class of one."""
    if not owner or owner.lstrip(".").partition(".")[0] in sys.stdlib_module_names:
        return None
    place, cls = follow(asked, module.path, owner), ""
    if place is None:
        owner, _, cls = owner.rpartition(".")
        place = follow(asked, module.path, owner) if owner else None
    other = built(place) if place is not None else None
    return _method(other, cls, name) if other is not None else None
