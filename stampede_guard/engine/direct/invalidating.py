"""Invalidation by a guard: in every event loop of this process and in the store. The hooks receive an event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from stampede_guard.events import Invalidated

if TYPE_CHECKING:
    from stampede_guard.engine.hooks import Hooks
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.policy import Policy

__all__ = ["Invalidation", "outdate_entry", "outdate_tag"]

Invalidation = Literal["done", "pending"]
"""With `pending`, the store is away or refuses writes for now (a read-only replica, loading, a full disk). This process
has dropped its own copies, and reads nothing of the entry until it has invalidated it in the store. It retries that by
itself. If the process ends before that, it logs that the invalidation is not done."""


async def outdate_entry(runtime: Runtime, hooks: Hooks | None, name: str, policy: Policy) -> Invalidation:
    fence = await runtime.invalidate(name, policy)
    return _told(hooks, name, fence is not None)


async def outdate_tag(runtime: Runtime, hooks: Hooks, name: str) -> Invalidation:
    return _told(hooks, name, await runtime.invalidate_tag(name))


def _told(hooks: Hooks | None, name: str, done: bool) -> Invalidation:
    if hooks:
        hooks.tell(Invalidated(name, done))
    return "done" if done else "pending"
