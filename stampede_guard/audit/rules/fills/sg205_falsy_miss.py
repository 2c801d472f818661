"""SG205: a falsy value treated as a miss."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stampede_guard.audit.caching.fills import fills, owned_name, what_is_cached
from stampede_guard.audit.caching.flow import Flow
from stampede_guard.audit.fixes.expressions import asks_for_none
from stampede_guard.audit.prefilter import STORES
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module, inside, position
from stampede_guard.audit.source.words import names_in, path


def check(module: Module) -> Iterator[Violation]:
    for fill in fills(module):
        flow = Flow(module, fill.function, fill.read)
        if fill.read.what != "read" or _stores_text(fill.write.value, flow, fill.write.call):
            continue
        test = _truth_test(flow)
        if test is not None:
            yield Violation(
                node=test,
                message=f"{what_is_cached(fill.function)} treats 0, '' or an empty list as a miss "
                "and computes it every time: test `is None`",
                function=owned_name(fill.function),
            )


def _truth_test(flow: Flow) -> ast.expr | None:
    direct = {
        name
        for node, names, value in flow.bindings
        if len(names) == 1 and _bare(value) is flow.read.call
        for name in names
    }
    for test in flow.function.tests:
        if not isinstance(test, ast.If) or (
            position(test) < position(flow.read.call) and not inside(flow.read.call, test.test)
        ):
            continue
        condition = test.test
        if isinstance(condition, ast.UnaryOp) and isinstance(condition.op, ast.Not):
            condition = condition.operand
        if isinstance(condition, ast.NamedExpr) and _bare(condition.value) is flow.read.call:
            return test.test
        if isinstance(condition, ast.Name) and condition.id in direct:
            return test.test
        if direct & names_in(test.test):
            return None  # the first test of the value decides between hit and miss
    return None


def _bare(value: ast.expr) -> ast.expr:
    return value.value if isinstance(value, ast.Await) else value


def _stores_text(value: ast.expr | None, flow: Flow, at: ast.AST) -> bool:
    """json.dumps([]) is "[]", which is truthy: only values that are not serialised can be falsy."""
    sources = [value]
    for name in (value.id,) if isinstance(value, ast.Name) else ():
        sources += [source for _n, names, source in flow.bindings if names == [name]]
    return any(
        isinstance(source, ast.Call)
        and path(source.func).rpartition(".")[2]
        in (
            "dumps",
            "model_dump_json",
            "json",
            "packb",
            "encode",
            "serialize",
            "dict",
            "model_dump",
            "jsonable_encoder",
        )
        for source in sources
    )


RULE = Rule(
    code="SG205",
    name="falsy-miss",
    summary='`if cached:` treats 0, "" or an empty list as a miss: such values are computed at every call',
    confidence="medium",
    scope="process",
    hints=(STORES,),
    near=lambda text: text.traces.may_fill,
    check=check,
    fix=asks_for_none,
    fixes=("safe", "unsafe"),
    documentation=Documentation(
        what="The miss test checks the value's truth instead of `is None`.",
        why="A count of 0, an empty result list and an empty text are correct answers. They are cached, "
        "but the test treats them as a miss. So they are computed at every call, often with the "
        "slowest query.",
        example="count = cache.get(key)\nif not count:\n    count = orders.count()\n    "
        "cache.set(key, count, 300)",
        instead="if count is None: ...",
        unless="A falsy value never occurs.",
        sure="Medium: a value stored as serialised text is never falsy and is not reported.",
        fix="`if count:` becomes `if count is not None:`. Safe if the client is known and returns None "
        "for a miss. Unsafe if only its name suggests that, or if an empty answer is stored on a "
        "failure. None if the get names another default.",
    ),
)
