"""Where a value comes from: the import, constructor or annotation of a name."""

from __future__ import annotations

import ast

from stampede_guard.audit.source.model import Function, Module, owner_class, returns
from stampede_guard.audit.source.words import path

_DEEP = 5


def origin(module: Module, node: ast.expr | None, function: Function | None, depth: int = _DEEP) -> str:
    """The qualified name of the expression that made a value, as far as this file shows: "redis.asyncio.Redis()",
    else "".
    """
    if node is None or depth == 0:
        return ""
    match node:
        case ast.Await(value=value):
            return origin(module, value, function, depth)
        case ast.Call(func=func):
            return _made_by(module, func, function, depth)
        case ast.BoolOp(values=values):
            return next(
                (found for value in values if (found := origin(module, value, function, depth - 1))), ""
            )
        case ast.IfExp(body=body, orelse=orelse):
            return origin(module, body, function, depth - 1) or origin(module, orelse, function, depth - 1)
        case ast.Name(id=name):
            return _of_name(module, name, function, depth)
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attr):
            return _of_attribute(module, attr, owner_class(function), depth)
        case ast.Attribute(value=value, attr=attr):
            before = origin(module, value, function, depth - 1)
            return f"{before}.{attr}" if before else module.resolve(node)
        case ast.Subscript(value=value):
            before = origin(module, value, function, depth - 1)
            return f"{before}[]" if before else ""
        case _:
            return ""


def _made_by(module: Module, func: ast.expr, function: Function | None, depth: int) -> str:
    if isinstance(func, ast.Attribute):
        before = origin(module, func.value, function, depth - 1)
        if before:
            return f"{before}.{func.attr}()"
    made = module.resolve(func)
    if isinstance(func, ast.Name) and func.id not in module.imports:
        for maker in module.functions_named(func.id)[:1]:
            if maker.node.returns is not None:
                known = annotated(module, maker.node.returns)
                if known:
                    return known
    if isinstance(func, ast.Attribute) and path(func.value) in ("self", "cls") and function is not None:
        cls = owner_class(function)
        for maker in module.functions_named(func.attr):
            if cls is not None and maker.cls is cls and not maker.is_async:
                return _returned(module, maker, depth) or f"{made}()"
    return f"{made}()" if made else ""


def _returned(module: Module, maker: Function, depth: int) -> str:
    """What a method makes: its first return that shows it. Others may return stand-ins."""
    ends = (end.value for end in returns(maker) if isinstance(end.value, ast.Name | ast.Call))
    return next((made for end in ends if "." in (made := origin(module, end, maker, depth - 1))), "")


def _of_name(module: Module, name: str, function: Function | None, depth: int) -> str:
    for scope in function.chain() if function else ():
        for _node, names, value in reversed(scope.bindings):
            if name in names and len(names) == 1 and not _is_none(value) and not _same(value, name):
                return origin(module, value, scope, depth - 1)
        for argument in scope.arguments:
            if argument.arg == name:
                return annotated(module, argument.annotation) or _default(module, argument, scope, depth)
    if name in module.imports:
        return module.imports[name]
    if name in module.values:
        value = module.values[name]
        if isinstance(value, ast.Call | ast.BoolOp | ast.IfExp | ast.Await | ast.Attribute | ast.Subscript):
            return origin(module, value, None, depth - 1) or annotated(module, value)
        return annotated(module, value)
    return ""


def _default(module: Module, argument: ast.arg, function: Function, depth: int) -> str:
    """A FastAPI dependency: `redis = Depends(get_redis)` gets the result of `get_redis`."""
    spec = function.node.args
    positional = [*spec.posonlyargs, *spec.args]
    pairs = list(zip(reversed(positional), reversed(spec.defaults), strict=False))
    pairs += [(arg, value) for arg, value in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if value]
    for known, value in pairs:
        if known is argument and isinstance(value, ast.Call) and value.args:
            if path(value.func).endswith(("Depends", "Provide")):
                return f"{module.resolve(value.args[0])}()"
    return ""


def _of_attribute(module: Module, attr: str, cls: ast.ClassDef | None, depth: int) -> str:
    if cls is None:
        return ""
    for value, where in module.attributes.get((cls.name, attr), ()):
        found = origin(module, value, where, depth - 1) or annotated(module, value)
        if found:
            return found
    return ""


def annotated(module: Module, node: ast.expr | None) -> str:
    """The class that an annotation names: `Redis | None`, `Annotated[Redis, Depends(get_redis)]` ->
    "redis.asyncio.Redis".
    """
    match node:
        case ast.Constant(value=str(text)):
            try:
                return annotated(module, ast.parse(text, mode="eval").body)
            except (SyntaxError, ValueError):
                return ""
        case ast.BinOp(left=left, right=right):
            return annotated(module, left) or annotated(module, right)
        case ast.Subscript(value=value, slice=inner):
            if path(value).rpartition(".")[2] in ("Optional", "Annotated", "Union", "Final", "ClassVar"):
                first = inner.elts[0] if isinstance(inner, ast.Tuple) and inner.elts else inner
                return annotated(module, first)
            return module.resolve(value)
        case ast.Name() | ast.Attribute():
            return module.resolve(node)
        case _:
            return ""


def _is_none(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and value.value is None


def _same(value: ast.expr, name: str) -> bool:
    return isinstance(value, ast.Name) and value.id == name
