"""Decorators that register a route or a function for templates, and the requests that reach a route."""

from __future__ import annotations

import ast

from stampede_guard.audit.source.model import FunctionNode, Module
from stampede_guard.audit.source.words import last, path

_VERBS = frozenset(
    ("get", "post", "put", "delete", "patch", "head", "options", "route", "api_route", "websocket")
)
_TAGS = frozenset(("filter", "simple_tag", "simple_block_tag", "inclusion_tag", "tag"))
_OF_TEMPLATES = frozenset(("template_filter", "template_test", "template_global", "context_processor"))
_APPS = frozenset(("app", "router", "api", "bp", "blueprint", "application"))


def is_route(decorator: ast.expr) -> bool:
    """`@app.get(...)`, `@users_router.api_route(...)`."""
    if not isinstance(decorator, ast.Call) or not isinstance(decorator.func, ast.Attribute):
        return False
    owner = last(path(decorator.func.value)).lower()
    return decorator.func.attr in _VERBS and (
        owner in _APPS or owner.endswith(("router", "_app", "_bp", "_api"))
    )


def registers(decorator: ast.expr) -> bool:
    """`@register.filter`, `@app.template_filter("money")`: templates call the function that is below it."""
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    if not isinstance(target, ast.Attribute):
        return False
    owner = last(path(target.value)).lower()
    if owner in ("register", "library"):
        return target.attr in _TAGS
    return target.attr.removeprefix("app_") in _OF_TEMPLATES


def only_reads(decorator: ast.expr) -> bool:
    """Whether a route accepts GET only."""
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


def endpoint(module: Module, node: ast.AST) -> str:
    """The request that reaches the function, "GET /orders/{order}"; "" outside a route."""
    for around in (node, *module.up(node)):
        found = routes(around) if isinstance(around, ast.FunctionDef | ast.AsyncFunctionDef) else []
        if found:
            return _asked(module, found[0])
    owner = module.owners.get(node)
    return endpoint(module, owner.node) if owner is not None and owner.node is not node else ""


def _asked(module: Module, route: ast.expr) -> str:
    assert isinstance(route, ast.Call) and isinstance(route.func, ast.Attribute)
    place = next((keyword.value for keyword in route.keywords if keyword.arg in ("path", "rule")), None)
    place = route.args[0] if route.args else place
    said = place.value if isinstance(place, ast.Constant) and isinstance(place.value, str) else "?"
    verb = "GET" if only_reads(route) else route.func.attr.upper()
    return f"{verb} {_prefix(module, route.func.value)}{said}"


def _prefix(module: Module, router: ast.expr) -> str:
    made = module.values.get(router.id) if isinstance(router, ast.Name) else None
    for keyword in made.keywords if isinstance(made, ast.Call) else ():
        if keyword.arg in ("prefix", "url_prefix") and isinstance(keyword.value, ast.Constant):
            return str(keyword.value.value)
    return ""
