"""SG101: `fastapi_cache.decorator.cache`."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.audit.caching.judging.cost import cost
from stampede_guard.audit.caching.judging.worth import level_unless_little
from stampede_guard.audit.fixes.decorators import fastapi_cache
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import decorations
from stampede_guard.audit.source.model import Module


def check(module: Module) -> Iterator[Violation]:
    for decoration in decorations(module):
        if decoration.name in ("fastapi_cache.decorator.cache", "fastapi_cache.cache"):
            yield Violation(
                node=decoration.node,
                message=f"fastapi-cache has no lock: when {decoration.function.name}() expires, every request "
                "computes until the value is stored",
                level=level_unless_little(module, decoration.function, lifetime=decoration.call),
                function=decoration.function.name,
                cost=cost(decoration.function.node),
            )


RULE = Rule(
    code="SG101",
    name="fastapi-cache-unlocked",
    summary="`fastapi_cache.decorator.cache`: no lock at all",
    confidence="high",
    scope="process",
    hints=((b"fastapi_cache",),),
    check=check,
    fix=fastapi_cache,
    fixes=("safe", "unsafe"),
    guide="migrating.md#from-fastapi-cache2",
    documentation=Documentation(
        what="An endpoint is cached with fastapi-cache's decorator.",
        why="The decorator gets, calls and sets. Neither the callers of one process nor the workers wait "
        "for each other. At an expiry, the whole burst reaches the database.",
        example='@app.get("/quality")\n@cache(expire=300)\nasync def quality(project: int) -> Quality: ...',
        instead='@app.get("/quality")\n@locked_cache(ttl=300)\nasync def quality(project: int) -> Quality: ...',
        unless="The endpoint costs about as little as a round trip to the cache.",
        sure="High: the import says which decorator it is. Information if a miss only asks for rows by their key, or "
        "if few wait for it: a user, a typed text, administrators (see SG201). Else a warning.",
        fix="Safe: `@cache(expire=60)` becomes `@locked_cache(ttl=60)`. Every parameter must be declared "
        "as one of Python's own types, the result must be declared, and the route must be for GET. "
        "The headers that fastapi-cache adds are lost; StampedeMiddleware sends such headers. Unsafe "
        "with a key builder, coder or namespace, without a lifetime, with undeclared types, or with a "
        "session or Request among the parameters (they become `unkeyed`). None for responses, for "
        "methods other than GET, and above the route (see SG109).",
    ),
)
