"""SG603: an entry is deleted before the new row is visible."""

from __future__ import annotations

import re
from collections.abc import Iterator

from stampede_guard.audit.caching.entries.commits import too_early
from stampede_guard.audit.caching.entries.memoized import lives_briefly
from stampede_guard.audit.caching.fills import owned_name
from stampede_guard.audit.prefilter import STORES, Hint, Text
from stampede_guard.audit.rule import Documentation, Rule, Violation
from stampede_guard.audit.source.model import Module
from stampede_guard.audit.source.programs import runs_alone

_WORDS = r"(?:delete|unlink|invalidate|clear|evict|purge|flush|bust|expire|remove|drop|reset)"
_DELETES = re.compile(rf"\b{_WORDS}\w*[\s\\]*\(")
_COMMITS: Hint = (
    b"commit(",
    b"atomic",
    b"super().save",
    b"super().delete",
    b"transaction(",
    b"begin(",
    b"pre_save",
    b"pre_delete",
    b"m2m_changed",
    b"BEFORE_",
    re.compile(rb"super\(\w+, *self\)\.(?:save|delete)"),
)
# Where another function may commit: many files write rows, few of them delete entries.
_WRITES: Hint = (
    *(
        b"session.add",
        b"session.merge",
        b"session.delete",
        b"session.bulk",
        b"db.add",
        b"db.merge",
        b"db.delete",
    ),
    *(b"upload", b"put_object("),
    *(b".save(", b".delete()", b".objects.", b"post_save", b"post_delete"),
)
_DELETES_ENTRIES: Hint = (
    re.compile(rb"\.(?:a?delete(?:_many)?|unlink|delete_pattern|invalidate)[\s\\]*\((?!\))"),
    re.compile(rb"\.clear[\s\\]*\("),
    re.compile(rb"\b%b\w{0,80}(?:[cC]ache|[mM]emo|[rR]edis)\w{0,80}[\s\\]*\(" % _WORDS.encode()),
)
# Classes of the project for a cache have methods of any name.
_OWN: Hint = (b"Cache(", b"Cache |", b"Cache]", b": Cache", b"Cache,", b"Cache)", b"cache(")


def _may_apply(text: Text) -> bool:
    return text.has_any(_COMMITS) or text.has_any(_DELETES_ENTRIES) or text.has_any(_OWN)


def check(module: Module) -> Iterator[Violation]:
    for function in module.functions_with(_DELETES):
        if runs_alone(module, function):
            continue
        for found, reason in too_early(module, function):
            yield Violation(
                node=found.call,
                message=f"{owned_name(function)}() deletes a cache entry {reason}: a reader in between stores the old "
                "value again, and it stays",
                level="information" if lives_briefly(module, found.call) else "warning",
                function=owned_name(function),
            )
            break


RULE = Rule(
    code="SG603",
    name="deleted-before-commit",
    summary="a cache entry is deleted before the change is committed: a reader in between stores the old value again",
    confidence="medium",
    scope="fleet",
    hints=(STORES, (*_COMMITS, *_WRITES)),
    near=_may_apply,
    check=check,
    documentation=Documentation(
        what=(
            "An entry is deleted before `super().save()`, before the session's last `commit()`, in a receiver "
            "of `pre_save` or `pre_delete`, of an action of `m2m_changed` that comes before the change, in a "
            "`BEFORE_DELETE` hook, or inside a transaction that also writes, or before the row or the file of "
            "the same name is saved (`page.save()`, `storage.upload(...)`), or before a row is made or deleted that is "
            "about the same (`Like.objects.create(status=status)`, `like.delete()`). Also if the commit comes after "
            "the function: it changes rows in a session of SQLAlchemy and commits nowhere, or it saves rows of Django "
            "while the settings have `ATOMIC_REQUESTS`."
        ),
        why=(
            "Other callers see the old row until the commit. One that misses in between stores the old value "
            "again, and "
            "nothing deletes it afterwards."
        ),
        example=('with transaction.atomic():\n    page.save()\n    cache.delete(f"page:{page.id}")'),
        instead=(
            "with transaction.atomic():\n    page.save()\n    "
            'transaction.on_commit(lambda: cache.delete(f"page:{page.id}"))'
        ),
        unless=("Nobody reads the entry at that time, or its lifetime is shorter than anybody would notice."),
        sure=(
            "Medium. Silent if the entry is deleted again after the commit, and for one-time secrets, counters "
            "and marks, "
            "by the words of their keys. Silent, too, if a callee is given the session and may commit. The settings "
            "are those that `manage.py` names. Information if `delete_memoized` names a function whose entries live a "
            "minute at most."
        ),
        fix=("No automatic fix: `on_commit` also changes what happens in tests and on a rollback."),
    ),
)
