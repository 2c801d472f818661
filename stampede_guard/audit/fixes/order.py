"""SG109: the cache decorator moves below the route's."""

from __future__ import annotations

import ast

from stampede_guard.audit.plan import FixPlan, Lower, Span
from stampede_guard.audit.rule import Violation
from stampede_guard.audit.source.model import Module
from stampede_guard.audit.source.routes import is_route, only_reads, routes
from stampede_guard.audit.source.words import last, path


def below_the_route(module: Module, hit: Violation) -> FixPlan | None:
    """Safe for `locked_cache`, because every parameter is in its key. For other caches, the reader must check the
    key.
    """
    node = hit.node
    assert isinstance(node, ast.expr)
    function = next((f.node for f in module.functions if node in f.node.decorator_list), None)
    if function is None:
        return None
    reasons = []
    if last(path(node.func if isinstance(node, ast.Call) else node)) != "locked_cache":
        reasons.append("the cache starts to work: check that its key distinguishes callers")
    if not all(only_reads(route) for route in routes(function)):
        reasons.append("the route is not for GET only: a cached response would skip the action")
    lowest = [decorator for decorator in function.decorator_list if is_route(decorator)][-1]
    return FixPlan(edits=(Lower(Span.of(node), Span.of(lowest)),), reasons=tuple(reasons))
