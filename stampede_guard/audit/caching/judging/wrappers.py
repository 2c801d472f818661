"""The decorator that a wrapper belongs to."""

from __future__ import annotations

import ast

from stampede_guard.audit.source.model import Function
from stampede_guard.audit.source.words import names_in, path


def decorator_around(function: Function) -> Function | None:
    """The decorator of this wrapper: it defines and returns the wrapper, which calls the decorator's argument."""
    given: set[str] = set()
    for outer in function.chain():
        if outer is function:
            continue
        given |= outer.parameters
    made = _made_from(function, given)
    called = {call.func.id for call in function.calls if isinstance(call.func, ast.Name)}
    through = {path(call.func).partition(".")[0] for call in function.calls}
    passed = {name for call in function.calls for arg in call.args for name in names_in(arg)}
    if not given & (called | passed) and not made & through:
        return None
    outermost: Function | None = None
    for outer in function.chain():
        if outer is not function and _returns_own(outer):
            outermost = outer
    return outermost


def _made_from(function: Function, given: set[str]) -> set[str]:
    """`validated = Validated(function)` in the decorator, and `validated.call(...)` in the wrapper."""
    return {
        name
        for outer in function.chain()
        if outer is not function
        for _node, names, value in outer.bindings
        if isinstance(value, ast.Call) and any(path(argument) in given for argument in value.args)
        for name in names
    }


def _returns_own(function: Function) -> bool:
    own = {
        node.name
        for node in ast.walk(function.node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    own.discard(function.name)
    return any(
        isinstance(node, ast.Return) and names_in(node.value) & own for node in ast.walk(function.node)
    )
