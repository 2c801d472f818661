"""Invalidation for code without an event loop: a script, a Celery task, a plain function that changed the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stampede_guard.engine.threads.portal import portal

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard
    from stampede_guard.api.types import Invalidation

__all__ = ["SyncGuard"]


class SyncGuard:
    """The object `guard.sync`: the guard's own methods, called through the portal of plain functions. The caller waits.

    In a coroutine, write `await guard.invalidate(...)` instead: these methods would block its event loop. They use
    the connections of plain functions: see `guard.close`.
    """

    def __init__(self, guard: StampedeGuard) -> None:
        self._guard = guard

    def invalidate(self, key: str, *, type: Any = Any) -> Invalidation:
        """The same as `await guard.invalidate(key)`, with its results and errors."""
        return portal().call(self._guard.invalidate, key, type=type)

    def invalidate_tag(self, tag: str) -> Invalidation:
        """The same as `await guard.invalidate_tag(tag)`, with its results and errors."""
        return portal().call(self._guard.invalidate_tag, tag)
