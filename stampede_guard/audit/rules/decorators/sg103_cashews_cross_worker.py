"""SG103: cashews' decorators, which coalesce in one process or not at all."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.audit.caching.judging.cost import cost
from stampede_guard.audit.caching.judging.worth import level_of
from stampede_guard.audit.caching.reexported import HINTS, library_decorations
from stampede_guard.audit.finding import Confidence, Scope
from stampede_guard.audit.fixes.decorators import cashews
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import Decoration, is_false, is_true
from stampede_guard.audit.source.model import Module

_STRATEGIES = frozenset(("cache", "early", "soft", "hit", "failover", "dynamic"))


def check(module: Module) -> Iterator[Violation]:
    for decoration in library_decorations(module, "cashews"):
        if not _of_cashews(decoration) or is_true(decoration.keyword("lock")):
            continue
        confidence, scope, why = _judge(decoration)
        yield Violation(
            node=decoration.node,
            message=f"cashews: {why} for {decoration.function.name}()",
            confidence=confidence,
            scope=scope,
            level=level_of(module, decoration.function, lifetime=decoration.call),
            function=decoration.function.name,
            cost=cost(decoration.function.node),
        )


def _of_cashews(decoration: Decoration) -> bool:
    if decoration.call is None:
        return False
    # `cache = Cache()` is called itself; `cashews.cache` is such an object.
    return decoration.tail in _STRATEGIES or decoration.name == "cashews.Cache()"


def _judge(decoration: Decoration) -> tuple[Confidence, Scope, str]:
    if is_false(decoration.keyword("protected")):
        return "high", "process", "protected=False lets every concurrent miss compute"
    if decoration.tail in ("hit", "dynamic"):
        return "medium", "process", f"`{decoration.tail}` protects nothing on a miss"
    return (
        "medium",
        "fleet",
        "concurrent misses share one computation in a process, but each worker has its own",
    )


RULE = Rule(
    code="SG103",
    name="cashews-cross-worker",
    summary="cashews' `cache(ttl)` coalesces in one process only (`lock=True` is fine); `hit` and "
    "`protected=False` do not coalesce at all",
    confidence="medium",
    scope="fleet",
    hints=((b"cashews", *HINTS),),
    check=check,
    fix=cashews,
    fixes=("safe", "unsafe"),
    guide="migrating.md#from-cashews",
    documentation=Documentation(
        what="A function is cached with cashews and without `lock=True`.",
        why="cashews joins the callers of one process only, so eight workers compute eight times per "
        "expiry. `hit` and `protected=False` do not even join those.",
        example='@cache(ttl="10m")\nasync def rates(): ...',
        instead='@cache(ttl="10m", lock=True)   # or @locked_cache(ttl=600)',
        unless="The program has one process.",
        sure="Medium, high for `protected=False`. An import from the project's own files is followed. "
        "A warning if a miss is much work: see SG201, else information.",
        fix='Safe: `@cache(ttl="5m")` becomes `@locked_cache(ttl=300)` if parameters and result are '
        "declared as Python's own types. Unsafe with a key template, condition, prefix or tags. None "
        "for `early`, `soft`, `hit` and `failover`, which are different strategies.",
    ),
)
