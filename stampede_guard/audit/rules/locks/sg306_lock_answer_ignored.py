"""SG306: a lock that may not have been taken."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.caching.holding.answers import unread
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module


def check(module: Module) -> Iterator[Violation]:
    for call, function, why in unread(module):
        yield Violation(
            node=call,
            message=f"{owned_name(function)}() goes on without the lock if {why}: leave then, or do it later",
            confidence="high" if why == "its wait ends" else "medium",
            function=owned_name(function),
        )


RULE = Rule(
    code="SG306",
    name="lock-answer-ignored",
    summary="the work goes on if a lock was not taken: nobody reads the answer of `acquire`, `GET_LOCK` or "
    "`pg_try_advisory_lock`",
    confidence="high",
    scope="fleet",
    hints=(
        (b"acquire", b"get_lock", b"GET_LOCK", b"try_advisory", b"TRY_ADVISORY"),
        (b"lock", b"Lock", b"LOCK"),
        (
            *(
                b"blocking",
                b"timeout=",
                b"acquire(False",
                b"acquire(True,",
                b"get_lock",
                b"GET_LOCK",
                b"except",
            ),
            *(b"try_advisory", b"TRY_ADVISORY"),
        ),
    ),
    check=check,
    documentation=Documentation(
        what=(
            "A lock is taken with a bounded wait (`acquire(timeout=5)`, `acquire(blocking=False)`, "
            "`blocking_timeout=`, `GET_LOCK`, `pg_try_advisory_lock`), and the answer is dropped, or read in `finally` "
            "only. Or the exception of the attempt is logged, and the work follows."
        ),
        why=(
            "If another process holds the lock longer than the wait, both work at once. The release then raises, or "
            "frees the other one's lock. This happens under load, when the lock is needed most."
        ),
        example="lock.acquire(timeout=5)\ntry:\n    rebuild()\nfinally:\n    lock.release()",
        instead="if not lock.acquire(timeout=5):\n    return\ntry:\n    rebuild()\nfinally:\n    lock.release()",
        unless="The lock only saves work. Handlers of a store that is away are not reported.",
        sure="High if the lock's library answers False (threading, redis, redis_lock, fasteners; SQL by its text). "
        "Libraries that raise are left out. Medium for a logged exception.",
        fix="No automatic fix: only the program knows what to do without the lock.",
    ),
)
