"""SG109: a cache decorator above the route's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.judging.misses import miss
from stampede_guard.audit.finding import Level
from stampede_guard.audit.fixes.routes import below_the_route
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.routes import is_route, registers
from stampede_guard.audit.source.words import is_cachy, last, path


def check(module: Module) -> Iterator[Violation]:
    for function in module.functions:
        above: ast.expr | None = None
        for decorator in function.node.decorator_list:
            if above is not None and is_route(decorator):
                yield Violation(
                    node=above,
                    message=f"the cache decorator stands above the route's, so the route serves {function.name}() "
                    "uncached: put it below",
                    function=function.name,
                )
                break
            if above is not None and registers(decorator):
                yield Violation(
                    node=above,
                    message=f"the cache decorator stands above the one that registers {function.name}() for templates, "
                    "so they call it uncached: put it below",
                    level=_level(module, function),
                    function=function.name,
                )
                break
            if _is_cache(decorator):
                above = decorator


def _level(module: Module, function: Function) -> Level:
    """Information if each call asks nobody: then no cache was needed."""
    asked = miss(module, function)
    return "warning" if asked.queries or asked.remote or asked.sums else "information"


def _is_cache(decorator: ast.expr) -> bool:
    target = decorator.func if isinstance(decorator, ast.Call) else decorator
    dotted = path(target)
    name = last(dotted)
    if name in ("cache", "cached", "memoize", "cache_page", "locked_cache", "cache_response", "lru_cache"):
        return True
    return (
        is_cachy(name)
        and not name.startswith(("invalidate", "clear", "no", "never", "vary"))
        and "control" not in name
    )


RULE = Rule(
    code="SG109",
    name="decorator-above-route",
    summary="a cache decorator above `@app.get` or `@register.filter`: it caches nothing",
    confidence="high",
    scope="process",
    hints=(
        (b"cache", b"Cache", b"memoize"),
        (re.compile(rb"@[\w.]*[cC]ache"), re.compile(rb"@[\w.]*memoize")),
        (
            re.compile(rb"@(?:\w+\.)*(?:register|library)\."),
            re.compile(rb"@\w+\.(?:app_)?(?:template_(?:filter|test|global)|context_processor)\b"),
            re.compile(rb"@\w+\.(?:get|post|put|delete|patch|route|api_route|head|options|websocket)\("),
        ),
    ),
    check=check,
    fix=below_the_route,
    fixes=("safe", "unsafe"),
    documentation=Documentation(
        what="A cache decorator is written above `@app.get(...)`, or above `@register.filter` and others that "
        "register a function for templates.",
        why="Decorators apply from the bottom up. The route registers the bare function, and requests "
        "and templates never call the cached wrapper.",
        example='@cache(expire=60)\n@app.get("/rates")\nasync def rates(): ...',
        instead='@app.get("/rates")\n@locked_cache(ttl=60)\nasync def rates() -> Rates: ...',
        unless="The decorator only marks the function for a middleware.",
        sure="High for FastAPI, Starlette and Flask routes, and for filters and tags of Django's and Flask's "
        "templates; information for those that ask no database and no service.",
        fix="The decorator moves below the route's. Safe for `locked_cache` on a route for GET, if "
        "parameters and result are declared as Python's own types: every parameter is in its key. Unsafe for other "
        "caches: they start to work, and their keys may not distinguish all callers. None if the function reads a "
        "ContextVar, Flask's `request` or a parameter that belongs to one caller, and none above further decorators: a "
        "check of permissions among them would not be done on a hit.",
    ),
)
