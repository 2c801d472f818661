"""SG106: cachetools without `condition=`."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.audit.caching.judging.cost import cost
from stampede_guard.audit.caching.judging.static import makes_one_object
from stampede_guard.audit.caching.judging.worth import level_of
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import Decoration, decorations
from stampede_guard.audit.source.model import Module

_NAMES = frozenset(
    (
        "cachetools.cached",
        "cachetools.cachedmethod",
        "cachetools.func.ttl_cache",
        "cachetools.decorators.cached",
    )
)


def check(module: Module) -> Iterator[Violation]:
    for decoration in decorations(module):
        if decoration.name not in _NAMES or decoration.function.is_async or decoration.keyword("condition"):
            continue
        if makes_one_object(decoration.function):
            continue
        yield Violation(
            node=decoration.node,
            message=f"{_what(decoration)}: threads that miss {decoration.function.name}() together all compute; "
            "condition= makes one compute",
            level=level_of(module, decoration.function, lifetime=decoration.call),
            function=decoration.function.name,
            cost=cost(decoration.function.node),
        )


def _what(decoration: Decoration) -> str:
    if decoration.keyword("lock") is not None or decoration.tail == "ttl_cache":
        return "the lock guards the dict, not the call"
    return "cachetools without a lock is not even thread-safe"


RULE = Rule(
    code="SG106",
    name="cachetools-no-condition",
    summary="cachetools: `lock=` guards the dict, not the call; `condition=` coalesces",
    confidence="high",
    scope="process",
    hints=((b"cachetools",),),
    check=check,
    guide="migrating.md#from-lru_cache-with-a-time-bucket",
    documentation=Documentation(
        what="`cachetools.cached` or `cachedmethod` is used without `condition=`.",
        why="With `lock=` the dict is safe, but the function runs outside the lock, once per thread that "
        "misses. Without `lock=`, two threads can corrupt the dict itself.",
        example="@cached(TTLCache(1024, 60), lock=Lock())\ndef public_key(kid): ...",
        instead="@cached(TTLCache(1024, 60), condition=Condition())\ndef public_key(kid): ...",
        unless="One thread calls it, or it makes one object (a client, settings): without parameters and queries, "
        "that is not reported. `lru_cache` of the standard library is not reported: it is for pure "
        "functions.",
        sure="High: the import says which decorator it is. "
        "A warning if a miss is much work: see SG201, else information.",
        fix="No automatic fix: `condition=` needs a recent version of cachetools, and the file "
        "does not show which one is installed.",
    ),
)
