"""SG601: a key that lacks something the value depends on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stampede_guard.audit.caching.entries.missing import entries, missing, missing_keywords
from stampede_guard.audit.caching.entries.views import unkeyed_requests
from stampede_guard.audit.caching.fills import owned_name, what_is_cached
from stampede_guard.audit.prefilter import STORES, Hint, Text
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module

_DICTS = re.compile(rb"(?:ache|ACHE|memo)\w{0,80}\[[^\n]{0,300}\] *= ")

# Not those of functools: they are for functions, which see no request.
_DECORATED = re.compile(rb"@(?!lru_cache\b|cached_property\b|cache[ \t]*[\r\n#])\w{0,80}cache")
_BARE = re.compile(rb"@cache[ \t]*[\r\n#]")
_OF_FUNCTOOLS = re.compile(rb"from functools import[^\n]*\bcache\b")
_ASKS: Hint = (b"request", b"session", b"current_", b"get_jwt", re.compile(rb"\bg\."))
# Decorators of libraries whose keys are known; any file may set the key builder of fastapi-cache.
_SETTLED = ("memoize", "cached", "cache_page")
_OR_RUNS = (b"cache_or_", b"cached_or_", b"memo_or_")


def check(module: Module) -> Iterator[Violation]:
    seen = set()
    for entry in entries(module):
        lacking = missing(module, entry) if entry.function not in seen else None
        if lacking is None:
            continue
        seen.add(entry.function)
        yield Violation(
            node=entry.write,
            message=f"what {what_is_cached(entry.function)} stores depends on {_listed(lacking.names)}, and its key "
            "does not: callers with another one get this value",
            confidence="medium" if lacking.sure else "low",
            function=owned_name(entry.function),
        )
    for fill, name in missing_keywords(module):
        assert fill.decorator is not None
        yield Violation(
            node=fill.write.call,
            message=f"the decorator {fill.decorator.name} hands on {name}, and its key does not contain it: calls with "
            "other keywords get this value",
            confidence="medium",
            function=fill.decorator.name,
        )
    for decoration, part in unkeyed_requests(module):
        yield Violation(
            node=decoration.node,
            message=f"{decoration.tail} has no key for {part}, which {decoration.function.name}() reads: callers with "
            "another one get this response",
            confidence="high" if decoration.tail in _SETTLED else "medium",
            function=decoration.function.name,
        )


def _listed(names: tuple[str, ...]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _may_apply(text: Text) -> bool:
    if text.traces.may_fill or text.has_any((b"get_or_set", _DICTS, *_OR_RUNS)):
        return True
    decorated = text.has_any((b"memoize", b".cached(", b"cache_page", b"fastapi_cache", _DECORATED)) or (
        text.has_any((_BARE,)) and not text.has_any((_OF_FUNCTOOLS,))
    )
    return decorated and text.has_any(_ASKS)


RULE = Rule(
    code="SG601",
    name="key-misses-argument",
    summary="the stored value depends on a parameter, a user or a query that its key lacks",
    confidence="medium",
    scope="fleet",
    hints=(STORES,),
    near=_may_apply,
    check=check,
    documentation=Documentation(
        what=(
            "A value is computed from a parameter, a part of the request or the caller's identity, and stored "
            "under a key "
            "that does not contain it, also by a decorator of the project whose key has `*args` and not "
            "`**kwargs`. For decorators: `memoize` and `cached` of Flask-Caching on a view that reads "
            "`request.args`, the body, `current_user`, `g.user` or the session, Django's `cache_page` on a view that "
            "reads `request.user`, and fastapi-cache on an endpoint that reads the request's query, cookies or user. "
            "Also a decorator of the project whose file names nothing of callers, on a view that reads `request.user`, "
            "itself or in `get_queryset()`."
        ),
        why=(
            "The first caller's value is served to everybody with the same key: the wrong page, the wrong language, or "
            "another user's data."
        ),
        example=(
            'async def users(limit: int):\n    found = await cache.get("users")\n    if found is None:\n        '
            'found = await User.all().limit(limit)\n        await cache.set("users", found, 60)\n    return found'
        ),
        instead=('found = await cache.get(f"users:{limit}")'),
        unless=(
            "The input does not change the value: all callers give the same one, or it follows from what is in the key."
        ),
        sure=(
            "Medium for values filled by hand and for fastapi-cache, whose key builder another file may set, high for "
            "other decorators. What flows into the value and the key is followed "
            "through the function. Handles (sessions, clients, helpers, functions), switches (`force`, `timeout`), "
            "inputs that a "
            "found value is compared with, what all objects of a class share, and what describes an object whose "
            "id is in the key are left out. "
            "Low, and so "
            "not shown by default, if only a credential is missing, or for a dict of an object. Silent if the caller "
            "gives the key."
        ),
        fix=("No automatic fix: other code may use the same key, for example to delete entries."),
    ),
)
