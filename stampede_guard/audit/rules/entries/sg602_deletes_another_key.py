"""SG602: a deletion that misses the entry it is for."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stampede_guard.audit.caching.entries.deletions import LATER, by_pattern
from stampede_guard.audit.caching.entries.families import bound_late, missed
from stampede_guard.audit.caching.entries.memoized import PartialDeletion, is_brief, partial_deletions
from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.prefilter import STORES
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module

_DELETES = (
    re.compile(rb"\.(?:delete|delete_many|adelete|unlink)[\s\\]*\("),
    re.compile(rb"invalidate\w{0,80}\("),
    b"on_commit(",
    b"delete_memoized(",
)

_SHOWN = 3  # parameters that a message names
_BY_PATTERN = (re.compile(rb"\*[\"'],?\s*\)"),)
_LATER = (re.compile(rb"(?:%b)\s*\(\s*lambda" % "|".join(sorted(LATER)).encode()),)


def check(module: Module) -> Iterator[Violation]:
    for function, call, key, meant in missed(module):
        yield Violation(
            node=call,
            message=f"{owned_name(function)}() deletes {key!r}, which this file never stores or reads: it stores "
            f"{meant!r}",
            function=owned_name(function),
        )
    for function, call, name in bound_late(module):
        yield Violation(
            node=call,
            message=f"the lambda reads {name} when it runs, after the loop: {owned_name(function)}() deletes the last "
            f"one's entry each time: bind it (`lambda {name}={name}: ...`)",
            confidence="high",
            function=owned_name(function),
        )
    for function, call, key in by_pattern(module):
        yield Violation(
            node=call,
            message=f"{owned_name(function)}() deletes the one entry whose key is {key}: DEL knows no patterns, so "
            "the entries that are meant stay",
            function=owned_name(function),
        )
    for partial in partial_deletions(module):
        yield Violation(
            node=partial.call,
            message=f"{owned_name(partial.function)}() {_reaches(partial)}",
            level="information" if is_brief(partial.lifetime) else "warning",
            function=owned_name(partial.function),
        )


def _reaches(partial: PartialDeletion) -> str:
    if partial.unknown:
        return (
            f"deletes an entry of {partial.target} with {partial.unknown[0]}=, which is no parameter of it: "
            "it deletes nothing, unless a call passes the same"
        )
    left = ", ".join(partial.left[:_SHOWN]) + (", ..." if len(partial.left) > _SHOWN else "")
    return f"deletes one entry of {partial.target} only, that of the defaults of {left}: the others stay"


RULE = Rule(
    code="SG602",
    name="deletes-another-key",
    summary="a deletion names a key that nothing stores, deletes the last key of a loop again and again, or one entry "
    "of many",
    confidence="medium",
    scope="fleet",
    hints=((*STORES, b"memoize"), _DELETES),
    near=lambda text: (
        bool(text.traces.writes)
        or text.has_any(_LATER)
        or text.has_any(_BY_PATTERN)
        or text.has_any((b"delete_memoized(",))
    ),
    check=check,
    documentation=Documentation(
        what=(
            "A key is deleted that the file neither stores nor reads, and the file stores one that looks like "
            "it: a longer "
            "or shorter prefix, another separator, one more part at the end. Or a key ends with `*`, as if DEL knew "
            "patterns. Or a loop gives `on_commit` a "
            "lambda that reads "
            "the loop's variable. Or `delete_memoized` of Flask-Caching gets some of the arguments: it deletes the one "
            "entry that has the defaults of all others."
        ),
        why=(
            "The old value stays until it expires. Such a lambda runs after the loop, so each one deletes the last key."
        ),
        example=('cache.set(f"user_profile_{user.id}", profile)\ncache.delete(f"profile_{user.id}")'),
        instead=(
            'def profile_key(user_id): return f"user_profile_{user_id}"\ncache.delete(profile_key(user.id))'
        ),
        unless=("Another file stores the deleted key."),
        sure=(
            "Medium: keys are compared as texts with holes, and functions of the same file that build them are "
            "followed. "
            "High for a lambda in a loop. For `delete_memoized`, the parameters that calls in this file or in the "
            "function's own file pass are compared; information if its entries live a minute at most."
        ),
        fix=("No automatic fix: only the program knows which of the two keys is right."),
    ),
)
