"""SG610: a cache of one process, cleared after a change that all processes must see."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stampede_guard.audit.caching.clearing.own import VERBS, cleared
from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.prefilter import Hint, Text
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module


def check(module: Module) -> Iterator[Violation]:
    for one in cleared(module):
        until = "their entries expire" if one.expires else "they restart"
        yield Violation(
            node=one.call,
            message=f"{owned_name(one.function)}() clears {one.name} in this process only: the other workers serve the "
            f"old value until {until}",
            confidence="high" if one.is_a_memo else "medium",
            level="information" if one.expires else "warning",
            function=owned_name(one.function),
        )


# Each begins with literal text, so that it is searched for as fast as that.
_CLEARS: Hint = (
    b"cache_clear",
    re.compile(rb"ache\w{0,80}\.(?:clear|pop)\("),
    re.compile(rb"ACHE\w{0,80}\.(?:clear|pop)\("),
    re.compile(rb"del \w{0,80}(?:ache|ACHE)"),
    re.compile(rb"cache_?(?:clear|invalidate|reset)"),
    *(re.compile(verb.encode() + rb"_\w{0,80}cache") for verb in VERBS),
)


def _may_apply(text: Text) -> bool:
    return text.has_any(_CLEARS)


RULE = Rule(
    code="SG610",
    name="cleared-in-one-worker",
    summary="a request or a task clears an `lru_cache` or a dict of its own process: the other workers keep the old "
    "value",
    confidence="medium",
    scope="fleet",
    hints=((b"cache", b"Cache", b"CACHE"),),
    near=_may_apply,
    check=check,
    documentation=Documentation(
        what=(
            "A request, a task or a function that changes rows calls `cache_clear()` of a function under `lru_cache`, "
            "or `cache_invalidate()` of one under `alru_cache`. "
            "Or it empties a dict of its module that is a cache, also by a helper of the project."
        ),
        why=(
            "Each worker has a memory of its own. The one that got the request forgets, and the others serve the old "
            "value until it expires there. With `lru_cache`, that is until they restart. A task runs in a worker of "
            "the queue, so no web worker forgets."
        ),
        example="def change(name, value):\n    Setting.objects.filter(name=name).update(value=value)\n    "
        "settings_of.cache_clear()",
        instead='@locked_cache(ttl=60, tags=("settings",))   # one entry for all workers\n'
        'async def settings_of(name): ...\n\nawait guard.invalidate_tag("settings")',
        unless=(
            "One process serves everything, or others learn of the change: functions that publish a message are left "
            "out, as are programs that people start, and start-up hooks."
        ),
        sure=(
            "High for `lru_cache` and `alru_cache`, medium for dicts. Information, which fails no build, if the file "
            "of the dict shows an expiry, or `alru_cache` has a `ttl`."
        ),
        fix="No automatic fix: what tells the other workers is a decision for the whole program.",
    ),
)
