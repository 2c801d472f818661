"""Decorators that register a route, and which requests reach it."""

from __future__ import annotations

import ast

from stampede_guard.audit.model import FunctionNode
from stampede_guard.audit.words import last, path

_VERBS = frozenset(
    ("get", "post", "put", "delete", "patch", "head", "options", "route", "api_route", "websocket")
)
_APPS = frozenset(("app", "router", "api", "bp", "blueprint", "application"))


def is_route(decorator: ast.expr) -> bool:
    """`@app.get(...)`, `@users_router.api_route(...)`."""
    if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
        return False
    owner = last(path(decorator.func.value)).lower()
    return decorator.func.attr in _VERBS and (
        owner in _APPS or owner.endswith(("router", "_app", "_bp", "_api"))
    )


def only_reads(decorator: ast.expr) -> bool:
    """Whether a route is for GET alone."""
    assert isinstance(decorator, ast.Call) and isinstance(decorator.func, ast.Attribute)
    if decorator.func.attr == "get":
        return True
    stated = next((keyword.value for keyword in decorator.keywords if keyword.arg == "methods"), None)
    if not isinstance(stated, ast.List | ast.Tuple | ast.Set):
        return False
    verbs = {item.value for item in stated.elts if isinstance(item, ast.Constant)}
    return decorator.func.attr in ("route", "api_route") and verbs == {"GET"}


def routes(function: FunctionNode) -> list[ast.expr]:
    return [decorator for decorator in function.decorator_list if is_route(decorator)]
