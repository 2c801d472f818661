"""Invalidation as a guard does it: in every part of this process, in the store, and told to its hooks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
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
    bypassed = bypassed_name(name)
    _tell_others(runtimes, runtime, name, _forgetting(name), _forgetting(bypassed))
    runtime.forget_local(bypassed)
    fence = await runtime.invalidate(name, policy)
    if fence is not None:
        # Their messages may come later than this is done, or never: a read that was answered before must not be kept.
        _tell_others(runtimes, runtime, name, _forgetting(name, fence))
    return _told(hooks, name, fence is not None)


async def outdate_tag(runtimes: Runtimes, runtime: Runtime, hooks: Hooks, name: str) -> Invalidation:
    _tell_others(runtimes, runtime, name, lambda other: other.forget_tag(name))
    done = await runtime.invalidate_tag(name)
    if done:
        _tell_others(runtimes, runtime, name, lambda other: other.forget_tag(name, settled=True))
    return _told(hooks, name, done)


def _told(hooks: Hooks, name: str, done: bool) -> Invalidation:
    if hooks:
        hooks.tell(Invalidated(name, done))
    return "done" if done else "pending"


def _forgetting(name: str, fence: int = 0) -> Callable[[Runtime], None]:
    return lambda other: other.forget_local(name, fence=fence)


def _tell_others(runtimes: Runtimes, runtime: Runtime, name: str, *orders: Callable[[Runtime], None]) -> None:
    """The parts of other event loops of this process."""
    for loop, other in list(runtimes.items()):
        if other is not runtime:
            other.near.expire(name)
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                for order in orders:
                    loop.call_soon_threadsafe(order, other)
