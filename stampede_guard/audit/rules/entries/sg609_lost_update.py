"""SG609: a value is read, and written back or counted up, in two steps."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.audit.caching.entries.updates import updates
from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.prefilter import STORES
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module
from stampede_guard.audit.source.programs import runs_alone

_MESSAGES = {
    "counted": "{name}() reads a number and writes it back changed: of two callers at once, one is not counted; "
    "`incr` does it in one step",
    "written back": "{name}() writes back the value that it read, which undoes a change and revives a deleted entry; "
    "`expire`, `touch` or `getex` renews the lifetime alone",
}


def check(module: Module) -> Iterator[Violation]:
    for update in updates(module):
        if runs_alone(module, update.function):
            continue
        name = owned_name(update.function)
        yield Violation(
            node=update.write.call,
            message=_MESSAGES[update.how].format(name=name),
            level="information" if update.how == "counted" else None,
            function=name,
        )


RULE = Rule(
    code="SG609",
    name="lost-update",
    summary="a cached value is read, and written back or counted up in a second step",
    confidence="medium",
    scope="fleet",
    hints=(STORES,),
    near=lambda text: text.traces.may_flag,
    check=check,
    documentation=Documentation(
        what=(
            "A function reads an entry and writes the same value again, to renew its lifetime. Or it writes the value "
            "plus or minus a number: a counter, a version, a limit of attempts."
        ),
        why=(
            "Another process writes or deletes the entry in between. The old value then replaces the new one, or the "
            "deleted entry is back. Of two callers that count at once, one is lost, so a limit lets more through."
        ),
        example="attempts = cache.get(key, 0)\ncache.set(key, attempts + 1, 60)",
        instead="cache.add(key, 0, 60)\nattempts = cache.incr(key)",
        unless="One process writes the key, or an exact number does not matter.",
        sure="Medium: silent under a lock, after a claim, and with WATCH, a script or `gets` and `cas`. A counter is "
        "information.",
        fix="No automatic fix: `incr` fails on a missing key of Django's cache, and keeps the first count's lifetime.",
    ),
)
