"""What a function reads of its caller's request beside its parameters: a ContextVar, or Flask's `request`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.origins import origin

# Objects that are another one in each request.
_OF_THE_REQUEST = re.compile(
    r"^(?:flask|quart|bottle|web|celery|cherrypy)\.(?:request|session|g|ctx|current_task)\b"
    r"|^(?:flask_login|quart_auth|flask_jwt_extended|flask_security|flask_principal)\."
    r"(?:current_user|current_identity|get_jwt\w*|get_current_user|get_jwt_identity|g)\b"
    r"|^starlette_context\.context\b|^asgi_correlation_id\.|^crum\.|^django_currentuser\."
)


def ambient(module: Module, function: Function) -> list[str]:
    """What to review, also of the functions of the file that it calls."""
    found = {said for reached in _reached(module, function) for said in _read(module, reached)}
    return [f"it reads {said}: name it in context=, or all callers share one value" for said in sorted(found)]


def _reached(module: Module, function: Function) -> list[Function]:
    found = [function]
    for one in found:
        inner = [f for f in module.functions if f.outer is one]
        called = [callee for call in one.calls if (callee := module.callee(call, one)) is not None]
        found += [other for other in dict.fromkeys((*inner, *called)) if other not in found]
    return found


def _read(module: Module, function: Function) -> Iterator[str]:
    if any(_is_of_a_context(module, call, function) for call in function.calls):
        yield "a ContextVar"
    for statement in function.node.body:
        for node in ast.walk(statement):
            if isinstance(node, ast.Name | ast.Attribute):
                known = _OF_THE_REQUEST.search(module.resolve(node))
                if known is not None:
                    yield known[0]


def _is_of_a_context(module: Module, call: ast.Call, function: Function) -> bool:
    return (
        isinstance(call.func, ast.Attribute)
        and call.func.attr == "get"
        and "ContextVar" in origin(module, call.func.value, function)
    )
