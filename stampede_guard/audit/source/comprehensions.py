"""`[key for key in keys if key not in known]`: a comprehension chooses what is missing, and makes nothing from what was
read.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from stampede_guard.audit.source.model import inside, position
from stampede_guard.audit.source.words import names_in

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
    """The names that a value is made from, without those that only choose."""
    if not isinstance(value, ast.ListComp | ast.SetComp):
        return names_in(value)
    made = (value.elt, *(each.iter for each in value.generators))
    return {name for part in made for name in names_in(part)}
