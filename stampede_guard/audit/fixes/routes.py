"""A cache decorator moves below the one of the route: SG109. It cached nothing before, so it starts to work."""

from __future__ import annotations

import ast

from stampede_guard.audit.fixes.signature import judge
from stampede_guard.audit.plan import FixPlan, Lower, NoFix, Span
from stampede_guard.audit.rule import Violation
from stampede_guard.audit.source.model import Module
from stampede_guard.audit.source.routes import is_route, only_reads, registers, routes
from stampede_guard.audit.source.words import last, path


def below_the_route(module: Module, hit: Violation) -> FixPlan | None:
    """Safe for `locked_cache` if every parameter can be in its key, and nothing else decides what a caller gets."""
    node = hit.node
    assert isinstance(node, ast.expr)
    function = next((f for f in module.functions if node in f.node.decorator_list), None)
    if function is None:
        return None
    listed = function.node.decorator_list
    lowest = [one for one in listed if is_route(one) or registers(one)][-1]
    if lowest is not listed[-1]:
        raise NoFix(
            "there are decorators below the route's: a check of permissions there would not be done on a hit"
        )
    verdict = judge(module, function, is_route=bool(routes(function.node)))
    if not verdict.possible:
        raise NoFix(verdict.why)
    if verdict.ambient and not _says(node, "context"):
        raise NoFix(verdict.ambient[0])
    reasons = []
    if last(path(node.func if isinstance(node, ast.Call) else node)) != "locked_cache":
        reasons.append("the cache starts to work: check that its key distinguishes callers")
    elif verdict.unkeyed and not _says(node, "unkeyed"):
        raise NoFix(f"{', '.join(verdict.unkeyed)} would have to be named in unkeyed=")
    if any(map(registers, listed)):
        reasons.append("a template calls it: check that no argument is a request or the template's context")
    if not all(only_reads(route) for route in routes(function.node)):
        reasons.append("the route is not for GET only: a cached response would skip the action")
    reasons += [*verdict.of_parameters, *verdict.reasons]
    return FixPlan(edits=(Lower(Span.of(node), Span.of(lowest)),), reasons=tuple(reasons))


def _says(decorator: ast.expr, option: str) -> bool:
    return isinstance(decorator, ast.Call) and any(keyword.arg == option for keyword in decorator.keywords)
