"""Keys as texts with holes: `f"user:{user.id}"` is "user:*". Functions that build keys are followed in their file."""

from __future__ import annotations

import ast
import re
from itertools import islice, product

from stampede_guard.audit.source.model import Function, Module, owner_class, returns

HOLE = "\0"
_DEEP = 5
_MANY = 4  # spellings of one key
_LONGEST = 300
_PERCENT = re.compile(r"%(?:\(\w*\))?[-#0 +]*\d*(?:\.\d+)?[a-zA-Z]")
_BRACES = re.compile(r"\{[^{}]*\}")
_Given = dict[str, frozenset[str]]


def templates(
    module: Module, function: Function | None, node: ast.expr, deep: int = _DEEP, given: _Given | None = None
) -> frozenset[str]:
    """The texts that an expression may be; what is not known is a hole."""
    if deep == 0:
        return frozenset((HOLE,))

    def inner(part: ast.expr) -> frozenset[str]:
        return templates(module, function, part, deep - 1, given)

    match node:
        case ast.Constant(value=str(text)):
            return frozenset((text[:_LONGEST],))
        case ast.Await(value=value):
            return inner(value)
        case ast.JoinedStr(values=values):
            return _joined(
                [inner(part.value if isinstance(part, ast.FormattedValue) else part) for part in values]
            )
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            return _joined([inner(left), inner(right)])
        case ast.BinOp(left=left, op=ast.Mod()):
            return frozenset(_PERCENT.sub(HOLE, text) for text in inner(left))
        case ast.Call(func=ast.Attribute(value=value, attr="format")):
            return frozenset(_BRACES.sub(HOLE, text) for text in inner(value))
        case ast.IfExp(body=body, orelse=orelse):
            return _few(inner(body) | inner(orelse))
        case ast.Call():
            return _of_call(module, function, node, deep, given)
        case ast.Name(id=name):
            return _of_name(module, function, name, deep, given)
        case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=attr):
            cls = owner_class(function)
            found = module.attributes.get((cls.name, attr), ()) if cls is not None else ()
            if len(found) == 1:
                return templates(module, found[0][1], found[0][0], deep - 1)
    return frozenset((HOLE,))


def _of_name(
    module: Module, function: Function | None, name: str, deep: int, given: _Given | None
) -> frozenset[str]:
    if given is not None and name in given:
        return given[name]
    for scope in function.chain() if function is not None else ():
        bound = [(names, value) for _node, names, value in scope.bindings if name in names]
        if bound:
            if any(len(names) > 1 for names, _value in bound) or name in scope.parameters:
                return frozenset((HOLE,))
            return _few(
                frozenset().union(
                    *(templates(module, scope, value, deep - 1, given) for _n, value in bound[:_MANY])
                )
            )
        if name in scope.parameters:
            return frozenset((HOLE,))
    value = module.values.get(name)
    return templates(module, None, value, deep - 1) if value is not None else frozenset((HOLE,))


def _of_call(
    module: Module, function: Function | None, call: ast.Call, deep: int, given: _Given | None
) -> frozenset[str]:
    callee = module.callee(call, function)
    if callee is None:
        return frozenset((HOLE,))
    names = [argument.arg for argument in callee.arguments if argument.arg not in ("self", "cls")]
    told = [*zip(names, call.args, strict=False), *((k.arg, k.value) for k in call.keywords if k.arg)]
    passed = {name: templates(module, function, value, deep - 1, given) for name, value in told}
    ends = [end.value for end in returns(callee) if end.value is not None]
    if not ends:
        return frozenset((HOLE,))
    found = (templates(module, callee, end, deep - 1, passed) for end in ends[:_MANY])
    return _few(frozenset().union(*found))


def _joined(parts: list[frozenset[str]]) -> frozenset[str]:
    return frozenset(
        "".join(one)[:_LONGEST] for one in islice(product(*(sorted(part) for part in parts)), _MANY)
    )


def _few(found: frozenset[str]) -> frozenset[str]:
    return found if len(found) <= _MANY else frozenset((HOLE,))


def is_telling(template: str) -> bool:
    """Whether its constant part names a family of keys."""
    return sum(character.isalpha() for character in template.replace(HOLE, "")) >= 4


def fits(one: str, other: str) -> bool:
    """Whether one key may be both."""
    return _matches(one, other) or _matches(other, one)


def _matches(pattern: str, template: str) -> bool:
    hole = "[^:]+" if ":" in pattern.replace(HOLE, "") else ".+"
    parts = (re.escape(part) for part in pattern.replace("*", HOLE).split(HOLE))
    return re.fullmatch(hole.join(parts), template.replace(HOLE, "x").replace("*", "x")) is not None
