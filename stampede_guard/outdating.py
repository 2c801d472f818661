"""Invalidation by a guard: in every event loop of this process and in the store. The hooks receive an event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from stampede_guard.events import Invalidated

if TYPE_CHECKING:
    from stampede_guard.cached import Invalidation
    from stampede_guard.hooks import Hooks
    from stampede_guard.policy import Policy
    from stampede_guard.runtime import Runtime

__all__ = ["outdate_entry", "outdate_tag"]


async def outdate_entry(runtime: Runtime, hooks: Hooks, name: str, policy: Policy) -> Invalidation:
    fence = await runtime.invalidate(name, policy)
    return _told(hooks, name, fence is not None)


async def outdate_tag(runtime: Runtime, hooks: Hooks, name: str) -> Invalidation:
    return _told(hooks, name, await runtime.invalidate_tag(name))


def _told(hooks: Hooks, name: str, done: bool) -> Invalidation:
    if hooks:
        hooks.tell(Invalidated(name, done))
    return "done" if done else "pending"
