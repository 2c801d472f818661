"""Invalidation for code without an event loop: a script, a Celery task, a plain function that changed the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stampede_guard.portal import portal

if TYPE_CHECKING:
    from stampede_guard.cached import Invalidation
    from stampede_guard.guard import StampedeGuard

__all__ = ["SyncGuard"]


class SyncGuard:
    """`guard.sync`: the same steps as the guard's own, made through the portal of plain functions; the caller waits.

    Called from a coroutine they work as well, and block that coroutine's event loop meanwhile: write
    `await guard.invalidate(...)` there. Its connections are those of plain functions: see `guard.close`.
    """

    def __init__(self, guard: StampedeGuard) -> None:
        self._guard = guard

    def invalidate(self, key: str, *, type: Any = Any) -> Invalidation:
        """As `await guard.invalidate(key)`: also what it returns and raises."""
        return portal().call(self._guard.invalidate, key, type=type)

    def invalidate_tag(self, tag: str) -> Invalidation:
        """As `await guard.invalidate_tag(tag)`: also what it returns and raises."""
        return portal().call(self._guard.invalidate_tag, tag)
