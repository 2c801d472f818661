"""SG109: the cache decorator moves below the route's."""

from __future__ import annotations

import ast

from stampede_guard.audit.fixes.plan import Lower, Plan, Span
from stampede_guard.audit.model import Module
from stampede_guard.audit.routes import is_route, only_reads, routes
from stampede_guard.audit.rule import Hit
from stampede_guard.audit.words import last, path


def below_the_route(module: Module, hit: Hit) -> Plan | None:
    """Safe for `locked_cache`, whose key holds every parameter; what other caches tell apart is for people to see."""
    node = hit.node
    assert isinstance(node, ast.expr)
    function = next((f.node for f in module.functions if node in f.node.decorator_list), None)
    if function is None:
        return None
    reasons = []
    if last(path(node.func if isinstance(node, ast.Call) else node)) != "locked_cache":
        reasons.append("the cache begins to work: see that its key tells callers apart")
    if not all(only_reads(route) for route in routes(function)):
        reasons.append("the route is not for GET alone: a cached answer does nothing")
    lowest = [decorator for decorator in function.decorator_list if is_route(decorator)][-1]
    return Plan(edits=(Lower(Span.of(node), Span.of(lowest)),), reasons=tuple(reasons))
