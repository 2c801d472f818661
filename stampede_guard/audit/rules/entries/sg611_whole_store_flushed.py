"""SG611: everything in the store is dropped, by a request or by each worker that starts."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.audit.caching.clearing.flushed import flushes
from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module

_LOST = {
    "store": "every key of the database: locks, sessions and counters, too, and all misses come at once",
    "cache": "all entries of the cache, also those that did not change: all misses come at once",
}


def check(module: Module) -> Iterator[Violation]:
    for one in flushes(module):
        who = (
            f"each worker that starts runs {owned_name(one.function)}(), which"
            if one.at_start
            else (f"{owned_name(one.function)}()")
        )
        yield Violation(
            node=one.call,
            message=f"{who} drops {_LOST[one.what]}",
            confidence="high" if one.what == "store" or one.at_start else "medium",
            level="warning" if one.at_start or (one.what == "store" and not one.is_told) else "information",
            function=owned_name(one.function),
        )


RULE = Rule(
    code="SG611",
    name="whole-store-flushed",
    summary="`FLUSHDB`, or `clear()` of a shared cache, while requests are served or whenever a worker starts",
    confidence="medium",
    scope="fleet",
    hints=(
        (b"flushdb", b"flushall", b"flush_db", b"flush_all", b"FLUSHDB", b"FLUSHALL", b".clear()"),
        (b"flush", b"FLUSH", b"core.cache", b"flask_cach", b"cache", b"Cache"),
    ),
    check=check,
    documentation=Documentation(
        what=(
            "`flushdb()` or `flushall()` of Redis, or `cache.clear()` of Django or Flask-Caching, in a program that "
            "serves requests, or in a start-up hook."
        ),
        why=(
            "`FLUSHDB` also drops locks that somebody holds, sessions, tokens and counters of limits. An empty cache "
            "sends all callers of all keys to the database at the same moment. In a start-up hook, each restart of one "
            "worker does this to all of them."
        ),
        example="def refresh_prices():\n    update_prices()\n    cache.clear()",
        instead="def refresh_prices():\n    update_prices()\n    cache.delete_many(price_keys())   # or a tag: "
        'guard.invalidate_tag("prices")',
        unless="Nothing else is in the database, and the misses are cheap. Commands, scripts and tests are left out.",
        sure="High for `FLUSHDB` and for start-up hooks, else medium. Information, "
        "which fails no build, for a cache, and "
        "for `FLUSHDB` in a function whose name says that it empties everything (`clear_cache`, `rebuild_all`): "
        "whoever calls it asks for that, so only look whether the database is its own. Not in a start-up hook.",
        fix="No automatic fix: the code does not say which entries are out of date.",
    ),
)
