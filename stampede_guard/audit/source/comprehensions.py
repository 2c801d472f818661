"""`[key for key in keys if key not in known]`: a comprehension chooses what is missing, and makes nothing from what was
read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from stampede_guard.audit.source.branches import missing
from stampede_guard.audit.source.model import inside, position
from stampede_guard.audit.source.words import names_in, path

Bound = tuple[ast.AST, list[str], ast.expr]


def sorts(bindings: Iterable[Bound], read: ast.expr) -> bool:
    """Whether a comprehension asks which keys are not in the value of the read."""
    bindings = list(bindings)
    got = {name for _node, names, value in bindings if inside(read, value) for name in names}
    return any(
        isinstance(value, ast.ListComp | ast.SetComp)
        and position(value) > position(read)
        and any(_asks(condition, got) for condition in value.generators[0].ifs)
        for _node, _names, value in bindings
    )


def _asks(condition: ast.expr, got: set[str]) -> bool:
    match condition:
        case ast.Compare(ops=[ast.NotIn()], comparators=[ast.Name(id=name)]):
            return name in got
        case _:
            return False


def material(value: ast.expr) -> set[str]:
    """The names that a value is made from, without those that only choose: a condition, or `set(ids) - set(known)`."""
    match value:
        case ast.ListComp(elt=elt) | ast.SetComp(elt=elt) | ast.GeneratorExp(elt=elt):
            made = [elt]
        case ast.DictComp(key=key, value=kept):
            made = [key, kept]
        case ast.BinOp(left=left, op=ast.Sub()) if _is_set(left) or _is_set(value.right):
            return material(left)
        case ast.Call(func=ast.Attribute(value=left, attr="difference")):
            return material(left)
        case ast.Call(func=ast.Name(id="list" | "sorted" | "tuple" | "set"), args=[only], keywords=[]):
            return material(only)
        case _:
            return names_in(value)
    targets = {name for each in value.generators for name in names_in(each.target)}
    asked = [condition for each in value.generators for condition in each.ifs]
    if any(_is_missing(condition, targets) for condition in asked):
        return {name for part in made for name in names_in(part)}
    made += [each.iter for each in value.generators]
    return {name for part in made for name in names_in(part)}


def _is_set(node: ast.expr) -> bool:
    return isinstance(node, ast.SetComp | ast.Set) or (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name | ast.Attribute)
        and (path(node.func) == "set" or path(node.func).endswith(".keys"))
    )


def _is_missing(condition: ast.expr, targets: set[str]) -> bool:
    """`for key, hit in zip(keys, hits) if hit is None`: the misses."""
    name = missing(condition)
    return name is not None and name in targets
