"""The runtimes of a guard, one per event loop, and how they end.

A program may make a guard before there is an event loop, and use it from several loops. The guard makes a `Runtime` per
event loop, at the first call there. After a fork, the child makes its own and does not touch the parent's sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from stampede_guard.engine.away.health import Health
from stampede_guard.engine.away.unsettled import Unsettled
from stampede_guard.engine.flights.computation import CURRENT
from stampede_guard.engine.loops.runtime import Runtime
from stampede_guard.engine.loops.workers import warn_if_one_of_several
from stampede_guard.engine.tasks import CLOSE_PLAIN, running_loop
from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.engine.threads.portal import at_end, portal, portal_loop
from stampede_guard.stores.switch import WATCH_TITLE
from stampede_guard.values.forks import in_children

if TYPE_CHECKING:
    from stampede_guard.engine.hooks import Hooks
    from stampede_guard.engine.modes.resolver import ModeResolver
    from stampede_guard.engine.stats.counting import Sums
    from stampede_guard.engine.stats.watching import Watching
    from stampede_guard.policy import Limits
    from stampede_guard.stores.protocol import Store
    from stampede_guard.stores.switch import Switch

__all__ = ["RUNTIMES", "Runtimes"]

MOST_ROUNDS = 8
"""Rounds of closing: how deep cached functions may call each other while the guard closes."""
RUNTIMES: weakref.WeakSet[Runtimes] = weakref.WeakSet()
"""Those of all guards of this process. They are closed when it ends, and renewed after a fork."""


class Runtimes:
    """Finds the runtime of the running event loop, and closes it.

    `current`: the runtime used last, for the shortest path. Ask it for its loop: with a second attribute, a thread
    could read a mixed pair.
    """

    current: Runtime | None = None

    def __init__(
        self,
        store: Store,
        namespace: str,
        limits: Limits,
        hooks: Hooks,
        modes: ModeResolver,
        sums: Sums | None = None,
        watching: Watching | None = None,
    ) -> None:
        self.store = store
        self.health = Health(hooks, getattr(store, "place", ""))
        self._namespace = namespace
        self.limits = limits
        self._hooks = hooks
        self._modes = modes
        self._sums = sums
        self._watching = watching
        self._asks_store = False
        """Whether a function of this guard has been in a mode that uses the store."""
        self._unsettled = Unsettled()
        self._open: dict[asyncio.AbstractEventLoop, Runtime] = {}
        # By event loop: the runtimes that are closing.
        self._leaving: dict[asyncio.AbstractEventLoop, list[Runtime]] = {}
        self._lock = PassableLock()
        RUNTIMES.add(self)

    def here(self) -> Runtime:
        """The runtime of the running event loop. Raises `Misuse` where none of asyncio runs."""
        loop = asyncio._get_running_loop() or running_loop()
        current = self.current
        if current is not None and current.loop is loop:
            return current
        with self._lock:
            runtime = self._open.get(loop)
            if runtime is None:
                self._forget_closed_loops()
                runtime = self._open[loop] = self.another()
        self.current = runtime
        return runtime

    def another(self) -> Runtime:
        """A new runtime for the running event loop, which the caller closes. A herd in a test has one per worker."""
        if not self.store.shared:
            warn_if_one_of_several()
        runtime = Runtime(
            self.store,
            self.limits,
            self._hooks,
            health=self.health,
            namespace=self._namespace,
            on_switches=self._switched,
            known_switches=lambda: self._modes.said.fleet,
            switch_ends=self._modes.ends,
            unsettled=self._unsettled,
        )
        runtime.count_for_the_fleet(self._sums, self._watching)
        if self._asks_store:
            runtime.watch_switches()
        return runtime

    def _switched(self, fleet: Mapping[str, Switch]) -> None:
        self._modes.set_fleet(fleet)
        if self._watching is not None:
            watch = fleet.get(WATCH_TITLE)
            self._watching.switch(on=watch is not None, shows_names=watch is not None and watch.sample == 1.0)
            self._tell_all(Runtime.watch_changed)

    def _tell_all(self, what: Callable[[Runtime], None]) -> None:
        """Call this in each event loop."""
        for loop, runtime in list(self._open.items()):
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(what, runtime)

    def of(self, loop: asyncio.AbstractEventLoop | None) -> Runtime | None:
        """The runtime of this event loop, if there is one. May be called from any thread."""
        return None if loop is None else self._open.get(loop)

    def gauges(self) -> dict[str, int]:
        """Numbers of this process at this moment, for viewers of the fleet. May be called from any thread."""
        runtimes = self.all()
        health = self.health.look()
        return {
            "in_flight": sum(len(runtime.flights) for runtime in runtimes),
            "l1_bytes": sum(runtime.l1.bytes for runtime in runtimes),
            health.status: 1,
        }

    def all(self) -> list[Runtime]:
        return list(self._open.values())

    def ask_store(self) -> None:
        """A function is in a mode that uses the store. From now on, the fleet's switches are read from it."""
        if self._asks_store:
            return
        self._asks_store = True
        self._tell_all(Runtime.watch_switches)

    @contextlib.contextmanager
    def on_store(self, store: Store) -> Iterator[None]:
        """Within the block, new runtimes use another store. Open ones stay untouched, and are back afterwards."""
        before = self.store, self._open, self.current
        self.store, self._open, self.current = store, {}, None
        try:
            yield
        finally:
            opened = self._open
            self.store, self._open, self.current = before
            for runtime in opened.values():
                # Not closed: the event loop may be another one now, or may have ended.
                runtime.abandon()

    def _forget_closed_loops(self) -> None:
        """Close connections of loops that ended without `aclose()`: no other code would close them."""
        # Copy the keys: a signal handler may add or remove a loop between two steps of this.
        for loop in [loop for loop in list(self._open) if loop.is_closed()]:
            runtime = self._open.pop(loop, None)
            if runtime is not None:
                runtime.abandon()
                runtime.hand_over()

    async def aclose(self) -> None:
        """Close the runtimes of this event loop and of plain functions: see `close`.

        The guard can be used again afterwards. It then connects again.
        """
        await self.close_here()
        if self._has_part(portal_loop()):
            await portal().elsewhere(self.close_here)

    def close(self) -> None:
        """Close the runtime of plain functions: drain flights for `drain_timeout` s, release leases, disconnect.

        For a program without an event loop. It also runs when the process ends, and within `await aclose()`.
        """
        if self._has_part(portal_loop()):
            portal().call(self.close_here)

    def _has_part(self, loop: asyncio.AbstractEventLoop | None) -> bool:
        return loop in self._open or loop in self._leaving

    async def close_here(self) -> None:
        """Return when all runtimes of this loop have ended, also those that another caller closes."""
        loop = running_loop(CLOSE_PLAIN)
        # Repeat, because a computation that drains may call other cached functions, and these open a new runtime.
        for _ in range(MOST_ROUNDS):
            with self._lock:
                runtime = self._open.pop(loop, None)
                if runtime is not None:
                    self._leaving.setdefault(loop, []).append(runtime)
            if runtime is not None:
                await self._close_part(loop, runtime)
            elif not await self._others_ended(loop):
                return

    async def _close_part(self, loop: asyncio.AbstractEventLoop, runtime: Runtime) -> None:
        if self.current is runtime:
            self.current = None
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

    def leave_the_parents(self) -> None:
        for runtime in list(self._open.values()):
            runtime.abandon()
        self.health.leave_the_parents()
        self._open.clear()
        self._leaving = {}
        self.current = None
        # The parent applies its pending invalidations.
        self._unsettled = Unsettled()
        # Another thread of the parent may have held the old lock.
        self._lock = PassableLock()


def _close_all() -> None:
    for runtimes in list(RUNTIMES):
        runtimes.close()


at_end(_close_all)


@in_children
def _after_fork() -> None:
    for runtimes in list(RUNTIMES):
        runtimes.leave_the_parents()
