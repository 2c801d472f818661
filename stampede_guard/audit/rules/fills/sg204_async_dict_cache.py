"""SG204: an await between a dict cache's get and its store."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.caching.dictcaches import KEPT, RENEWED, dict_fills
from stampede_guard.audit.caching.fills import fills, owned_name, what_is_cached
from stampede_guard.audit.caching.judging.cost import cost
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module
from stampede_guard.audit.source.programs import runs_alone


def check(module: Module) -> Iterator[Violation]:
    reported = {fill.function for fill in fills(module)}
    for function, node in dict_fills(module):
        assert isinstance(node, ast.expr)
        if function in reported or runs_alone(module, function) or _is_joined(module, function):
            continue
        yield Violation(
            node=node,
            message=f"{what_is_cached(function)} awaits between reading what it keeps and storing: "
            "coroutines that miss in between compute too",
            function=owned_name(function),
            cost=cost(function.node),
        )


def _is_joined(module: Module, function: Function) -> bool:
    """`alru_cache` of async_lru: concurrent callers with the same arguments wait for one of them."""
    return any(module.resolve(d).startswith("async_lru.") for d in function.node.decorator_list)


RULE = Rule(
    code="SG204",
    name="async-dict-cache",
    summary="an await between a dict cache's get and its store (information)",
    confidence="medium",
    scope="process",
    level="information",
    hints=(
        (b"async def",),
        (
            *(re.compile(rb"%s\w{0,80}\[" % word) for word in (b"cache", b"Cache", b"CACHE", b"memo")),
            *RENEWED,
            re.compile(rb"self\.\w{0,80}(?:cache|memo)\w{0,80} = "),
            *KEPT,
        ),
    ),
    check=check,
    documentation=Documentation(
        what="A coroutine reads a dict, one value of the module, or an attribute that it renews after some time, "
        "awaits the computation, and stores it.",
        why="At the await, other coroutines run, also miss, and also compute. A dict in a process needs "
        "one line of single flight.",
        example="if key not in cache:\n    cache[key] = await load(key)\nreturn cache[key]",
        instead="task = flights.get(key) or flights.setdefault(key, "
        "create_task(load(key)))\nreturn await shield(task)",
        unless="An occasional second computation does no harm. So it is information, and fails no build. "
        "Scripts, management commands, tasks of a queue, and code that only `__main__` starts are left out.",
        sure="Medium: only the name shows that the dict is a cache. Silent for dicts of an object that lives for one "
        "request or one run, of another object than the method's own, and for dicts that its maker passes to it.",
        fix="No automatic fix: for each dict you must decide which callers fail, and what "
        "happens if a caller is cancelled while others wait (`@locked_cache` does this).",
    ),
)
