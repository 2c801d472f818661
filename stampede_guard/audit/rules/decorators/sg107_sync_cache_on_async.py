"""SG107: a cache for plain functions on a coroutine function."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from stampede_guard.audit.fixes.decorators import memo_on_coroutine
from stampede_guard.audit.prefilter import Hint, Text
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import Decoration, decorations
from stampede_guard.audit.source.model import Module

_NAMES = frozenset(
    "functools.lru_cache functools.cache cachetools.cached cachetools.cachedmethod cachetools.func.ttl_cache "
    "cachetools.func.lru_cache cachetools.func.lfu_cache django.utils.functional.cached_property "
    "functools.cached_property werkzeug.utils.cached_property".split()
)


_LINE = re.compile(rb"@[ \t(]*(?:\w+\.)*(?:\w{0,80}cache|cached|cachedmethod|cached_property)\b")
# Another name for one of them, which then stands in the line.
_RENAMED: Hint = (
    re.compile(rb"cache[ \t]+as[ \t]"),
    re.compile(rb"cached(?:method|_property)?[ \t]+as[ \t]"),
    re.compile(rb"=[ \t(]*(?:\w+\.)*(?:lru_cache|ttl_cache|lfu_cache|cached|cachedmethod|cached_property)\b"),
    re.compile(rb"=[ \t(]*(?:functools\.)?cache[ \t]*[\r\n#;(]"),
    b"method_decorator",
)


def _may_apply(text: Text) -> bool:
    if text.has_any(_RENAMED):
        return True
    return any(
        one.is_async or b"yield" in text.data[one.start : one.end] for one in text.definitions.under(_LINE)
    )


def check(module: Module) -> Iterator[Violation]:
    for decoration in decorations(module):
        if decoration.function.is_async and decoration.name in _NAMES:
            yield Violation(
                node=decoration.node,
                message=f"{decoration.tail} keeps the coroutine of {decoration.function.name}(), "
                "not its result: the "
                "second caller awaits a used-up coroutine",
                function=decoration.function.name,
            )
        elif decoration.name in _NAMES and _gives_a_generator(decoration):
            yield Violation(
                node=decoration.node,
                message=f"{decoration.tail} keeps the generator of {decoration.function.name}(), not its values: "
                "after the first caller it is used up, and the others get nothing",
                function=decoration.function.name,
            )


def _gives_a_generator(decoration: Decoration) -> bool:
    """Whether the function itself yields. A decorator between may turn the generator into something else."""
    node = decoration.function.node
    return node.decorator_list[-1] is decoration.node and any(map(_yields, node.body))


def _yields(node: ast.AST) -> bool:
    if isinstance(node, ast.Yield | ast.YieldFrom):
        return True
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
        return False
    return any(map(_yields, ast.iter_child_nodes(node)))


RULE = Rule(
    code="SG107",
    name="sync-cache-on-async",
    summary="`lru_cache`, `cache`, cachetools on `async def`: the second caller gets a used-up coroutine; "
    "the same on a generator",
    confidence="high",
    scope="process",
    hints=((b"async def", b"yield"), (b"lru_cache", b"functools", b"cachetools", b"cached_property")),
    near=_may_apply,
    check=check,
    fix=memo_on_coroutine,
    fixes=("unsafe",),
    guide="migrating.md#from-lru_cache-with-a-time-bucket",
    documentation=Documentation(
        what="A cache for plain functions decorates an `async def` or a generator.",
        why="It stores what the call returns: a coroutine, which can be awaited once. The second caller "
        "gets `RuntimeError: cannot reuse already awaited coroutine`. A generator is used up after the first caller, "
        "and the others find it empty.",
        example="@lru_cache\nasync def settings(): ...",
        instead="@locked_cache(ttl=300)\nasync def settings() -> Settings: ...",
        unless="The function is called once per key. Then the cache is not needed.",
        sure="High.",
        fix="Unsafe: `@lru_cache` becomes `@locked_cache(ttl=300)`. The 300 seconds are a guess; the "
        "lifetime of a TTLCache is kept. None for cached properties and methods, and none for generators: "
        "return a list.",
    ),
)
