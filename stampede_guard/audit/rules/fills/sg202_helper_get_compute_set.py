"""SG202: get, miss, compute, set through the project's own helpers."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stampede_guard.audit.caching.across.given import HINT, given_fills
from stampede_guard.audit.caching.across.hops import own_fills, split_fills
from stampede_guard.audit.caching.fills import fills, owned_name, what_is_cached
from stampede_guard.audit.caching.judging.cost import cost
from stampede_guard.audit.caching.judging.rows import asks_for_one_row
from stampede_guard.audit.caching.judging.worth import level_of, level_of_fill
from stampede_guard.audit.finding import Level
from stampede_guard.audit.prefilter import STORES
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Function, Module


def check(module: Module) -> Iterator[Violation]:
    for fill in [*fills(module), *split_fills(module), *own_fills(module)]:
        if fill.decorator is not None or not (fill.read.helper or fill.write.helper):
            continue
        through = " and ".join(sorted({name for name in (fill.read.helper, fill.write.helper) if name}))
        yield Violation(
            node=fill.read.call,
            message=f"{what_is_cached(fill.function)} gets, computes on a miss and sets through {through} with no "
            "lock: every caller that misses at the same time computes too",
            confidence="low" if asks_for_one_row(module, fill.function, fill.read, fill.write) else "medium",
            level=level_of_fill(module, fill.function, fill.read, fill.write),
            function=owned_name(fill.function),
            cost=cost(fill.function.node),
        )
    for call, function, name, computing in given_fills(module):
        levels = {_level(module, function, call, *made) for made in computing}
        yield Violation(
            node=call,
            message=f"{what_is_cached(function)} fills a cache through {name} of the project, which has no lock: "
            "callers that miss together all compute",
            confidence="medium",
            level="warning" if "warning" in levels else "information",
            function=owned_name(function),
            cost=cost(function.node),
        )


def _level(module: Module, function: Function, call: ast.Call, where: Module, computing: Function) -> Level:
    """What the given function does is a miss. A lambda is a part of the function around the call."""
    if computing is function:
        return level_of(module, function, lifetime=call)
    return level_of(where, computing, lifetime=call, asked_by=(module, function))


RULE = Rule(
    code="SG202",
    name="helper-get-compute-set",
    summary="the same as SG201, but through the project's own get and set helpers",
    confidence="medium",
    scope="process",
    hints=(STORES,),
    near=lambda text: (
        text.traces.may_fill
        or text.traces.may_fill_by_hop
        or text.traces.may_fill_by_own
        or text.has_any(HINT)
    ),
    check=check,
    documentation=Documentation(
        what="A function calls a helper of the project for the cached value, computes on a miss, and "
        "passes the result to another helper that stores it.",
        why="It is SG201 through two helpers. The helpers hide the cache, but the herd stays.",
        example="user = await get_cached_user(id)\nif user is None:\n    user = await load_user(id)\n"
        "    await cache_user(id, user)",
        instead="@locked_cache(ttl=300)\nasync def user(id: int) -> User:\n    return await load_user(id)",
        unless="The helpers themselves let one caller through. If the getter, in this file or imported by its name, "
        "takes a lease (SET NX) and sleeps while another caller has it, the audit sees that. Otherwise rename it to "
        "show it, or suppress the finding on that line.",
        sure="Medium: the helpers are judged by their names and, if they are in the same file, by their "
        "code, whatever they are called. A helper that gets the computation as an "
        "argument (`get_or_run(key, load)`) is followed to its file, and its uses are reported, too; a miss is then "
        "what that function does. "
        "Low, and so not shown by default, if one query for one row is all that a miss costs: see SG201. "
        "Warning or information: see SG201, too.",
        fix="No automatic fix: the helpers are in other files, or have other callers. You must "
        "decide which of them to remove.",
    ),
)
