"""SG604: `lru_cache` over what a database or another service says."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stampede_guard.audit.caching.judging.cost import cost
from stampede_guard.audit.prefilter import Hint
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.decorations import decorations
from stampede_guard.audit.source.model import Module
from stampede_guard.audit.source.programs import is_started_by_hand, runs_alone
from stampede_guard.audit.source.routes import routes
from stampede_guard.audit.source.words import path

_LRU = re.compile(r"^functools\.(?:lru_cache|cache)(?:\(\))?$")
_ASKS = re.compile(
    r"\.objects\b|session\.(?:execute|query|scalars?|get)\b|\.query\.|requests\.(?:get|post)$|httpx\.(?:get|post)$"
)
_HINT: Hint = (b"lru_cache", re.compile(rb"@(?:functools\.)?cache\b(?!\.)"), b" cache as ")
_ASKED: Hint = (b".objects", b"session.", b".query", b"requests.", b"httpx.", b".cache_clear")


def check(module: Module) -> Iterator[Violation]:
    for decoration in decorations(module):
        function = decoration.function
        if (
            not _LRU.match(decoration.name)
            or "migration" in module.path
            or runs_alone(module, function)
            or is_started_by_hand(module, function)
        ):
            continue
        cleared = f"{function.name}.cache_clear" in module.source
        asks = any(_ASKS.search(path(call.func)) for call in function.calls)
        if not ((asks or cleared) if routes(function.node) else (asks and not cleared)):
            continue
        yield Violation(
            node=decoration.node,
            message=f"{decoration.tail} keeps what {function.name}() found until the process ends: this worker does "
            "not see later changes",
            function=function.name,
            cost=cost(function.node),
        )


RULE = Rule(
    code="SG604",
    name="never-expires",
    summary="`lru_cache` over a query, a request or a route: the process never sees later changes",
    confidence="medium",
    scope="process",
    hints=((b"functools",), _HINT, _ASKED),
    check=check,
    documentation=Documentation(
        what=(
            "`functools.lru_cache` or `cache` decorates a function that queries a database or asks another "
            "service, or a "
            "route that does or whose entries are cleared."
        ),
        why=(
            "The entry has no lifetime, and `cache_clear()` reaches one process only. The other workers serve the old "
            "answer until they restart."
        ),
        example=("@lru_cache()\ndef template(kind):\n    return Template.objects.get(kind=kind).content"),
        instead=("@locked_cache(ttl=300)\ndef template(kind: str) -> str: ..."),
        unless=(
            "The answer never changes, or the process ends soon. Scripts, commands and tasks are left out."
        ),
        sure=("Medium: the call is known by its name."),
        fix=("No automatic fix: the code does not say how old an answer may be."),
    ),
)
