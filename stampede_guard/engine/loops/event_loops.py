"""A guard's runtimes, one per event loop, and how they end.

A program may make a guard before there is an event loop, and use it from several loops. The guard makes a `Runtime` per
event loop, at the first call there. After a fork, the child makes its own and does not touch the parent's sockets.
"""

from __future__ import annotations

import asyncio
import os
import weakref
from typing import TYPE_CHECKING, Self

from stampede_guard.engine.away.health import Health
from stampede_guard.engine.away.unsettled import Unsettled
from stampede_guard.engine.flights.computation import CURRENT
from stampede_guard.engine.loops.runtime import Runtime
from stampede_guard.engine.loops.workers import warn_if_one_of_several
from stampede_guard.engine.modes.resolver import ModeResolver
from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.engine.threads.portal import at_end, portal, portal_loop

if TYPE_CHECKING:
    from stampede_guard.engine.hooks import Hooks
    from stampede_guard.policy import Policy
    from stampede_guard.stores.protocol import Store

__all__ = ["GUARDS", "PerEventLoop"]

MOST_ROUNDS = 8
"""Rounds of closing: how deep cached functions may call each other while the guard closes."""
GUARDS: weakref.WeakSet[PerEventLoop] = weakref.WeakSet()
"""All guards of this process. They are closed when it ends, and renewed after a fork."""


class PerEventLoop(ModeResolver):
    """The part of a guard that finds the runtime of the running event loop, and closes it."""

    def __init__(self, store: Store, namespace: str, policy: Policy, hooks: Hooks) -> None:
        super().__init__()
        self._store = store
        self.namespace = namespace
        self.policy = policy
        self.prefix = f"{namespace}:"
        self._hooks = hooks
        self._unsettled = Unsettled()
        # By event loop: the runtimes that are closing.
        self._leaving: dict[asyncio.AbstractEventLoop, list[Runtime]] = {}
        self._health = Health(hooks, getattr(store, "place", ""))
        # The runtime used last. Ask it for its loop: with a second attribute, a thread could read a mixed pair.
        self._current: Runtime | None = None
        GUARDS.add(self)

    def runtime(self) -> Runtime:
        """The runtime of the running event loop in this guard."""
        loop = asyncio.get_running_loop()
        current = self._current
        if current is not None and current.loop is loop:
            return current
        with self._lock:
            runtime = self._runtimes.get(loop)
            if runtime is None:
                self._forget_closed_loops()
                if not self._store.shared:
                    warn_if_one_of_several()
                runtime = self._runtimes[loop] = Runtime(
                    self._store,
                    self.policy,
                    self._hooks,
                    health=self._health,
                    namespace=self.namespace,
                    on_switches=self._switched,
                    known_switches=lambda: self._modes.fleet,
                    unsettled=self._unsettled,
                )
                if self._asks_store:
                    runtime.watch_switches()
        self._current = runtime
        return runtime

    def _forget_closed_loops(self) -> None:
        """Close connections of loops that ended without `aclose()`: no other code would close them."""
        # Copy the keys: a signal handler may add or remove a loop between two steps of this.
        for loop in [loop for loop in list(self._runtimes) if loop.is_closed()]:
            runtime = self._runtimes.pop(loop, None)
            if runtime is not None:
                runtime.abandon()
                runtime.hand_over()

    async def aclose(self) -> None:
        """Close the runtimes of this event loop and of plain functions: see `close`.

        The guard can be used again afterwards. It then connects again.
        """
        await self._close_here()
        if self._has_part(portal_loop()):
            await portal().elsewhere(self._close_here)

    def close(self) -> None:
        """Close the runtime of plain functions: drain flights for `drain_timeout` s, release leases, disconnect.

        For a program without an event loop. It also runs when the process ends, and within `await aclose()`.
        """
        if self._has_part(portal_loop()):
            portal().call(self._close_here)

    def _has_part(self, loop: asyncio.AbstractEventLoop | None) -> bool:
        return loop in self._runtimes or loop in self._leaving

    async def _close_here(self) -> None:
        """Return when all runtimes of this loop have ended, also those that another caller closes."""
        loop = asyncio.get_running_loop()
        # Repeat, because a computation that drains may call other cached functions, and these open a new runtime.
        for _ in range(MOST_ROUNDS):
            with self._lock:
                runtime = self._runtimes.pop(loop, None)
                if runtime is not None:
                    self._leaving.setdefault(loop, []).append(runtime)
            if runtime is not None:
                await self._close_part(loop, runtime)
            elif not await self._others_ended(loop):
                return

    async def _close_part(self, loop: asyncio.AbstractEventLoop, runtime: Runtime) -> None:
        if self._current is runtime:
            self._current = None
        try:
            await runtime.aclose()
        finally:
            with self._lock:
                self._leaving[loop].remove(runtime)
                if not self._leaving[loop]:
                    del self._leaving[loop]

    async def _others_ended(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Wait for the runtimes that another caller closes. Returns False if there are none."""
        leaving = list(self._leaving.get(loop, ()))
        flight = CURRENT.get()
        if flight is not None and flight.runtime in leaving:
            # This computation closes its own guard. The other caller already waits for this computation.
            return False
        for runtime in leaving:
            await runtime.ended()
        return bool(leaving)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    def _leave_the_parents(self) -> None:
        for runtime in list(self._runtimes.values()):
            runtime.abandon()
        self._health.leave_the_parents()
        self._runtimes.clear()
        self._leaving = {}
        self._current = None
        # The parent applies its pending invalidations.
        self._unsettled = Unsettled()
        # Another thread of the parent may have held the old lock.
        self._lock = PassableLock()


def _close_all() -> None:
    for guard in list(GUARDS):
        guard.close()


at_end(_close_all)


def _after_fork() -> None:
    for guard in list(GUARDS):
        guard._leave_the_parents()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
