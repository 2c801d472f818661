"""Does a hit serve the value that was read? Otherwise the read only shows that a value exists."""

from __future__ import annotations

import ast

from stampede_guard.audit.caching.flow import Flow
from stampede_guard.audit.source.branches import missing
from stampede_guard.audit.source.model import inside, position
from stampede_guard.audit.source.words import path


def is_served(flow: Flow, write: ast.AST) -> bool:
    """Whether a hit serves the value. Otherwise it only shows that a value exists."""
    if flow.or_compute() is not None or flow.read.what == "read-many":
        return True
    for node in flow.module.up(flow.read.call):
        if isinstance(node, ast.Return) and flow.read.what != "exists":
            return True
        if isinstance(node, ast.Match) and inside(flow.read.call, node.subject):
            return True
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Subscript) for t in node.targets):
            return True  # `css = result["css"] = cache.get(key)`
        if isinstance(node, ast.stmt):
            break
    if _told_apart(flow) or any(
        _is_spared(flow, test) or _makes_up(flow, test, write) for test in flow.function.tests
    ):
        return True
    tests = [test.subject if isinstance(test, ast.Match) else test.test for test in flow.function.tests]
    for name, load in flow.function.loads:
        if name in flow.names and not inside(load, write) and not any(inside(load, t) for t in tests):
            if position(load) > position(flow.read.call) and not _in_raise_or_log(flow, load):
                return True
    return False


def _is_spared(flow: Flow, test: ast.AST) -> bool:
    """`if cache.get(key): return`: a prefetch serves nothing, but a hit still saves its work."""
    return (
        isinstance(test, ast.If)
        and not test.orelse
        and (flow.says_hit(test.test) or _bare(test.test) is flow.read.call)
        and isinstance(test.body[-1], ast.Return)
        and test.body[-1].value is None
    )


def _makes_up(flow: Flow, test: ast.AST, write: ast.AST) -> bool:
    """`if not sites: sites = query(); cache.set(key, sites)`: the same name holds the computed value, which is
    stored for the readers elsewhere.
    """
    if (
        not isinstance(test, ast.If)
        or test.orelse
        or not inside(write, test)
        or not isinstance(write, ast.Call)
    ):
        return False
    asked = missing(test.test)
    value = write.args[1] if len(write.args) > 1 else None
    return asked is not None and isinstance(value, ast.Name) and value.id == asked


def _bare(value: ast.expr) -> ast.expr:
    return value.value if isinstance(value, ast.Await) else value


def _told_apart(flow: Flow) -> bool:
    """`if cached is not None: if cached == "none": ...`: the value itself decides what is served."""
    asked = [test for test in flow.function.tests if isinstance(test, ast.If) and flow.mentions(test.test)]
    return any(
        any(inside(inner, statement) for statement in outer.body)
        and isinstance(inner.test, ast.Compare)
        and isinstance(inner.test.ops[0], ast.Eq)
        for outer in asked
        for inner in asked
        if inner is not outer
    )


def _in_raise_or_log(flow: Flow, node: ast.AST) -> bool:
    for around in flow.module.up(node):
        if isinstance(around, ast.Raise):
            return True
        if isinstance(around, ast.Call) and path(around.func).partition(".")[0] in (
            "logger",
            "log",
            "logging",
            "print",
        ):
            return True
        if isinstance(around, ast.stmt):
            return False
    return False
