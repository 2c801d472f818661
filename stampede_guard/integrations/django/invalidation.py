"""Invalidation with the commit: a rollback invalidates nothing, and a transaction reads its own changes.

A crash between the commit and the invalidation leaves the old values until their `ttl` ends, unless the app
`stampede_guard.integrations.django.outbox` is installed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from django.db import connections, transaction

from stampede_guard.integrations.django.bridge import wait
from stampede_guard.integrations.django.guards import guard_of
from stampede_guard.options import takes_options

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = [
    "after_commit",
    "has_pending_invalidations",
    "invalidate_on_commit",
    "invalidated",
    "write_rows_with",
]

_AT_ONCE = 200


class _Pending:
    """What a transaction invalidates when it commits."""

    def __init__(self, guard: StampedeGuard, using: str, cache: str) -> None:
        self.guard = guard
        self.tags: dict[str, None] = {}
        self.is_done = False
        """Within `captureOnCommitCallbacks` of a test, Django calls it and keeps it."""
        self._using, self._cache = using, cache
        self._rows: list[Any] = []
        """Of the outbox."""

    def add(self, tags: Iterable[str]) -> None:
        new = [tag for tag in dict.fromkeys(tags) if tag not in self.tags]
        self.tags.update(dict.fromkeys(new))
        if new and _OUTBOX is not None and transaction.get_connection(self._using).in_atomic_block:
            self._rows.append(_OUTBOX.write(self._using, self._cache, new))

    def __call__(self) -> None:
        self.is_done = True
        if _all_done(self.guard, self.tags) and self._rows and _OUTBOX is not None:
            _OUTBOX.delete(self._using, self._rows)


class _Outbox(NamedTuple):
    write: Callable[[str, str, Iterable[str]], Any]
    delete: Callable[[str, Iterable[Any]], None]


_OUTBOX: _Outbox | None = None


def write_rows_with(
    write: Callable[[str, str, Iterable[str]], Any], delete: Callable[[str, Iterable[Any]], None]
) -> None:
    """The app of the outbox calls this: `write(database, cache, tags)` gives the key of a row."""
    global _OUTBOX
    _OUTBOX = _Outbox(write, delete)


def invalidated(cache: str, tags: Iterable[str]) -> bool:
    """Invalidate them now. Whether the store has done all of them; not while it is away. Raises what one raised."""
    return _all_done(guard_of(cache), tags)


def _all_done(guard: StampedeGuard, given: Iterable[str]) -> bool:
    async def invalidate() -> bool:
        tags, answers = list(given), []
        for start in range(0, len(tags), _AT_ONCE):
            some = tags[start : start + _AT_ONCE]
            answers += await asyncio.gather(*(guard.invalidate_tag(tag) for tag in some))
        return all(answer == "done" for answer in answers)

    return wait(invalidate)


@takes_options("invalidate_on_commit")
def invalidate_on_commit(*tags: str, using: str | None = None, cache: str = "default") -> None:
    """Invalidate these tags when the current transaction of the database `using` commits; at once without one.

    `cache` names the cache of `settings.CACHES` whose guard has the tags. If the store refuses the invalidation, Django
    logs the error: the transaction is committed already. Raises `ImproperlyConfigured`.
    """
    guard = guard_of(cache)
    hooks = transaction.get_connection(using).run_on_commit
    last = hooks[-1] if hooks else None
    if last and isinstance(last[1], _Pending) and last[1].guard is guard and not last[1].is_done:
        if last[0] == set(transaction.get_connection(using).savepoint_ids):
            last[1].add(tags)
            return
    pending = _Pending(guard, transaction.get_connection(using).alias, cache)
    pending.add(tags)
    transaction.on_commit(pending, using=using, robust=True)


def has_pending_invalidations() -> bool:
    """Whether a transaction of this thread has changed what others still see unchanged."""
    return bool(_connections_with_pending())


def after_commit(function: Callable[[], object]) -> None:
    """Call it when the transactions of this thread that have pending invalidations have committed."""
    for connection in _connections_with_pending():
        connection.on_commit(function, robust=True)


def _connections_with_pending() -> list[Any]:
    return [
        connection
        for connection in connections.all(initialized_only=True)
        if connection.in_atomic_block
        and any(isinstance(hook[1], _Pending) and not hook[1].is_done for hook in connection.run_on_commit)
    ]
