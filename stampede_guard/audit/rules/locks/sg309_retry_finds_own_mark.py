"""SG309: a task that fails finds its own mark when it is retried, and does nothing."""

from __future__ import annotations

from collections.abc import Iterator

from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.caching.holding.marks import kept
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module


def check(module: Module) -> Iterator[Violation]:
    for mark, function in kept(module):
        yield Violation(
            node=mark,
            message=f"{owned_name(function)}() sets this mark before its work and keeps it when that fails: each retry "
            "finds the mark and leaves",
            function=owned_name(function),
        )


RULE = Rule(
    code="SG309",
    name="retry-finds-own-mark",
    summary="a task marks its work as done before it is done, and keeps the mark on failure: its retries do nothing",
    confidence="medium",
    scope="fleet",
    hints=((b"autoretry_for", b".retry(", b"retry_backoff"), (b"nx", b"NX", b"setex", b".set(", b".add(")),
    check=check,
    documentation=Documentation(
        what=(
            "A task with retries (`autoretry_for`, `self.retry()`) leaves if a key is there, and sets this key before "
            "the work. No path deletes it."
        ),
        why=(
            "If the work fails, the queue runs the task again. It finds its own key, takes the work for done and "
            "leaves. The mail is never sent, until the key expires and somebody asks again."
        ),
        example=(
            '@app.task(autoretry_for=(Exception,))\ndef send(order):\n    if not redis.set(f"sent:{order}", 1, '
            "nx=True, ex=3600):\n        return\n    post(order)"
        ),
        instead=(
            '    try:\n        post(order)\n    except Exception:\n        redis.delete(f"sent:{order}")   # the retry '
            "may work\n        raise"
        ),
        unless="The key must outlive a failure. Keys of two minutes or less are not reported.",
        sure="Medium: a helper that the file does not show may delete the key.",
        fix="No automatic fix: which failures may be retried is a decision.",
    ),
)
