"""SG102: aiocache's `cached` and `multi_cached`."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from stampede_guard.audit.caching.judging.cost import cost
from stampede_guard.audit.caching.judging.worth import level_of
from stampede_guard.audit.caching.reexported import HINTS, library_decorations
from stampede_guard.audit.fixes.decorators import aiocache
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import Decoration
from stampede_guard.audit.source.model import Module


def check(module: Module) -> Iterator[Violation]:
    for decoration in library_decorations(module, "aiocache"):
        if _unlocked(decoration):
            yield Violation(
                node=decoration.node,
                message=f"aiocache's {decoration.tail} has no lock: concurrent misses of "
                f"{decoration.function.name}() all compute",
                level=level_of(module, decoration.function, lifetime=decoration.call),
                function=decoration.function.name,
                cost=cost(decoration.function.node),
            )


def _unlocked(decoration: Decoration) -> bool:
    if decoration.tail in ("cached", "multi_cached"):
        return True
    if decoration.tail != "cached_stampede":
        return False
    lease = decoration.keyword("lease")
    return isinstance(lease, ast.Constant) and lease.value in (0, None, False)


RULE = Rule(
    code="SG102",
    name="aiocache-cached",
    summary="aiocache's `cached`, `multi_cached`: no lock (`cached_stampede(lease=...)` is fine)",
    confidence="high",
    scope="process",
    hints=((b"aiocache", *HINTS),),
    check=check,
    fix=aiocache,
    fixes=("safe", "unsafe"),
    guide="migrating.md#from-aiocache",
    documentation=Documentation(
        what="A coroutine function is cached with aiocache's `cached` or `multi_cached`.",
        why="Both get, await the function and set. Every coroutine that misses during the computation "
        "awaits the function as well.",
        example="@cached(ttl=60)\nasync def rates(): ...",
        instead="@locked_cache(ttl=60)\nasync def rates() -> Rates: ...",
        unless="The function is cheap. aiocache's own `cached_stampede` with a lease above 0 helps, but it "
        "does not renew its lease.",
        sure="High: the import says which decorator it is. An import from the project's own files is "
        "followed, also to a subclass of the decorator. A warning if a miss is much work: see SG201, else information.",
        fix="Safe: `@cached(ttl=60)` becomes `@locked_cache(ttl=60)` if parameters and result are "
        "declared as Python's own types. If None may be returned, None is not stored, as with "
        "aiocache. Unsafe with a key, key builder, namespace or a store of its own, and without a "
        "lifetime. None for methods and `multi_cached`.",
    ),
)
