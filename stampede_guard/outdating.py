"""Invalidation as a guard does it: in every part of this process, in the store, and told to its hooks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from stampede_guard.events import Invalidated
from stampede_guard.serving import bypassed_name

if TYPE_CHECKING:
    from stampede_guard.cached import Invalidation
    from stampede_guard.hooks import Hooks
    from stampede_guard.policy import Policy
    from stampede_guard.runtime import Runtime

__all__ = ["outdate_entry", "outdate_tag"]

Runtimes = Mapping[asyncio.AbstractEventLoop, "Runtime"]


async def outdate_entry(
    runtimes: Runtimes, runtime: Runtime, hooks: Hooks, name: str, policy: Policy
) -> Invalidation:
    _tell_others(runtimes, runtime, "forget_local", name, bypassed_name(name))
    runtime.forget_local(bypassed_name(name))
    return _told(hooks, name, await runtime.invalidate(name, policy))


async def outdate_tag(runtimes: Runtimes, runtime: Runtime, hooks: Hooks, name: str) -> Invalidation:
    _tell_others(runtimes, runtime, "forget_tag", name)
    return _told(hooks, name, await runtime.invalidate_tag(name))


def _told(hooks: Hooks, name: str, done: bool) -> Invalidation:
    if hooks:
        hooks.tell(Invalidated(name, done))
    return "done" if done else "pending"


def _tell_others(runtimes: Runtimes, runtime: Runtime, what: str, *names: str) -> None:
    """The parts of other event loops of this process."""
    for loop, other in list(runtimes.items()):
        if other is not runtime:
            for name in names:
                other.near.expire(name)
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                for name in names:
                    loop.call_soon_threadsafe(getattr(other, what), name)
