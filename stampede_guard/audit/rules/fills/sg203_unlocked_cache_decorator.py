"""SG203: the project's own cache decorator."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stampede_guard.audit.caching.across.behind import unlocked_uses
from stampede_guard.audit.caching.across.hops import own_fills
from stampede_guard.audit.caching.fills import fills
from stampede_guard.audit.caching.judging.cost import cost
from stampede_guard.audit.caching.judging.worth import level_of
from stampede_guard.audit.caching.threaded import LOCKS_OR_CLOCKS, threaded_decorators
from stampede_guard.audit.caching.threaded import STORES as KEPT_IN_DICTS
from stampede_guard.audit.fixes.around import or_by_fill_lock
from stampede_guard.audit.fixes.handwritten import of_the_definition
from stampede_guard.audit.prefilter import STORES, Hint
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module

# `@cached_view(60)`, `@caching.cached_view(60)`, or on a line of its own in `@method_decorator(...)`.
_USES: Hint = (
    re.compile(
        rb"@(?!(?:\w+\.)*(?:lru_cache|cached_property)\b|(?:functools\.)?cache\b(?!\.))(?:\w+\.)*\w{0,80}(?:[cC]ache|memoize\b)"
    ),
    re.compile(rb"@method_decorator\(\s*[\w.]{0,120}[cC]ache"),
)


def check(module: Module) -> Iterator[Violation]:
    reported: set[object] = set()
    for fill in [*fills(module), *own_fills(module)]:
        if fill.decorator is None or fill.function in reported:
            continue
        reported.add(fill.function)
        yield Violation(
            node=fill.read.call,
            message=f"the decorator {fill.decorator.name} gets, computes and sets with no lock: "
            "at each expiry every "
            "caller of what it decorates computes",
            confidence="high" if fill.sure else "medium",
            function=fill.decorator.name,
            defines=fill.decorator.name,
        )
    for function, look, decorator in threaded_decorators(module):
        if function not in reported:
            yield Violation(
                node=look,
                message=f"the decorator {decorator.name} looks at what the process keeps, computes on a miss and "
                "stores the result: threads that miss at the same time compute too, in each process",
                confidence="medium",
                function=decorator.name,
            )
    for decoration, name in unlocked_uses(module):
        # The definition is reported once, so only the uses that cost much are.
        if level_of(module, decoration.function, lifetime=decoration.call) == "warning":
            yield Violation(
                node=decoration.node,
                message=f"{decoration.function.name}() is behind {name} of the project, which has no lock: "
                "callers that miss together all compute",
                confidence="medium",
                function=decoration.function.name,
                cost=cost(decoration.function.node),
            )


RULE = Rule(
    code="SG203",
    name="unlocked-cache-decorator",
    summary="a decorator of the project gets, computes and sets without a lock: the definition is "
    "reported once, and each use that costs much",
    confidence="high",
    scope="process",
    hints=(STORES,),
    near=lambda text: (
        text.traces.may_fill
        or text.traces.may_fill_by_own
        or text.has_any(_USES)
        or (text.has_any(LOCKS_OR_CLOCKS) and text.has_any(KEPT_IN_DICTS))
    ),
    check=check,
    fix=or_by_fill_lock(of_the_definition),
    fixes=("unsafe",),
    documentation=Documentation(
        what="A decorator of the project wraps functions in get, compute, set, without a lock.",
        why="All endpoints that use it stampede. A fix of the one definition fixes them all.",
        example="def cached(ttl):\n    def decorate(function):\n        async def wrapper(*args):\n"
        "            hit = await redis.get(key(args))\n            if hit is not None:\n         "
        "       return loads(hit)\n"
        "            value = await function(*args)\n            await redis.setex(key(args), ttl, dumps(value))\n"
        "            return value\n        return wrapper\n    return decorate",
        instead="from stampede_guard import locked_cache   # @locked_cache(ttl=300) in its place",
        unless="All functions that it decorates are cheap.",
        sure="High if the object is known to be a cache, else medium. Medium also for a dict of the process in a plain "
        "wrapper that keeps results for some time. Medium for uses, in this file or in others: the "
        "decorator's name must say cache. It may be a function, a class, or a method of an object of the project. "
        "They are reported if a miss of the function is a warning by SG201's facts.",
        fix="Unsafe: the inner wrapper is removed, and the decorator returns `locked_cache(ttl=...)(function)`. "
        "This fixes all its uses at once. Their keys change, and every parameter must be a valid key part. If "
        "the decorator stores no JSON, does more than that, or has parameters of its own, `with "
        "fill_lock(...)` and a second look enclose the computation in the wrapper, as for SG201.",
    ),
)
