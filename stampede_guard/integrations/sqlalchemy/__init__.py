"""SQLAlchemy: invalidation with the commit. A rollback invalidates nothing. See docs/invalidation.md.

    invalidate_on_commit(sessions, guard, {Task: Tags("task:{id}", "project:{project_id}", bulk="tasks")})

**When.** The tags of a transaction are invalidated when it is durable, and before `commit()` returns. The session of a
coroutine awaits it. 1. A computation reads before the commit. 2. The commit, and the invalidation. 3. The computation
ends. Its value carries the version that its tag had before it began, so it does not count: see `core.tags`.

**What.** Rows: `flushes`. Statements: `bulk`. Savepoints, lost answers to a COMMIT: `pending`. If Redis is away, the
guard queues the invalidation as for `invalidate_tag`, and the commit raises nothing: `delivery`.

A process that dies between the commit and the invalidation leaves the old values until their `ttl` ends. With an
`Outbox`, another process finishes its work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, overload

from stampede_guard.engine.tags.templates import tag_key
from stampede_guard.errors import Misuse
from stampede_guard.integrations.sqlalchemy import listeners as _listeners  # noqa: F401 - they listen from now on
from stampede_guard.integrations.sqlalchemy.delivery import Change
from stampede_guard.integrations.sqlalchemy.mapping import TagMapping
from stampede_guard.integrations.sqlalchemy.outbox import Outbox
from stampede_guard.integrations.sqlalchemy.relay import OutboxRelay
from stampede_guard.integrations.sqlalchemy.tags import Tags
from stampede_guard.integrations.sqlalchemy.targets import Sessions, mark, one_session, pending_of
from stampede_guard.options import takes_options

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["Outbox", "OutboxRelay", "Tags", "invalidate_on_commit"]


@overload
def invalidate_on_commit(
    sessions: Sessions,
    guard: StampedeGuard,
    models: Mapping[type[Any], Tags | Iterable[str]],
    /,
    *,
    outbox: Outbox | None = None,
) -> None: ...


@overload
def invalidate_on_commit(
    sessions: Sessions, guard: StampedeGuard, /, *tags: str, key: str | None = None, type: Any = Any
) -> None: ...


@takes_options("invalidate_on_commit")
def invalidate_on_commit(
    sessions: Any,
    guard: StampedeGuard,
    /,
    *changed: Any,
    key: str | None = None,
    type: Any = Any,
    outbox: Outbox | None = None,
) -> None:
    """Invalidate tags when a transaction commits.

    With `{Task: ("task:{id}", "project:{project_id}")}`: whenever one of the `sessions` commits changes of such rows.
    `sessions` is a `sessionmaker`, an `async_sessionmaker`, a `scoped_session`, a class, or one session. Call it once,
    where these are made. With `Tags(..., bulk="tasks")`, a bulk statement invalidates `tasks`, too; without it, such a
    statement raises `Misuse`. With an `outbox`, no crash loses an invalidation: see `Outbox` and `OutboxRelay`.

    With `"project:7", "projects"`: when the current transaction of this one session commits, or the next one if none
    has begun. A `key` is that of `get_or_compute`, with its `type`.

    A commit raises no error of the store. A store that is away gets the invalidation when it is back. One that refuses
    it is an ERROR in the log. Raises `Misuse`.
    """
    if changed and isinstance(changed[0], Mapping):
        if len(changed) > 1 or key is not None:
            raise Misuse(
                "models and tags are two calls: invalidate_on_commit(sessions, guard, {Task: ('task:{id}',)})"
            )
        mark(sessions, TagMapping(guard, changed[0], outbox))
        return
    if outbox is not None:
        raise Misuse(
            "outbox= belongs to the call that maps models to tags. Tags of such a session use it, too"
        )
    if not changed and key is None:
        raise Misuse('nothing to invalidate: write invalidate_on_commit(session, guard, "project:7")')
    for tag in changed:
        tag_key(tag)
    changes = [Change(guard, tag) for tag in changed]
    if key is not None:
        changes.append(Change(guard, key, is_tag=False, type=type))
    pending_of(one_session(sessions), made=True).add(changes)
