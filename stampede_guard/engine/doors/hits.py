"""The shortest path of a call: a copy in the process, or one read whose value only needs decoding."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

from stampede_guard.engine import serving
from stampede_guard.engine.doors.modes import BYPASSED, ModesDoor
from stampede_guard.engine.l1 import NOTHING
from stampede_guard.engine.threads.portal import portal_loop

if TYPE_CHECKING:
    from stampede_guard.core.entry import Reading
    from stampede_guard.engine.hooks import Hooks
    from stampede_guard.engine.l1 import Asked
    from stampede_guard.engine.loops.event_loops import Runtimes
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan

__all__ = ["HitsDoor", "Question"]

Question = tuple["Runtime", "Asked | None", "asyncio.Future[Reading | None]"]
"""Where a read was sent, whether its value may be kept in L1, and the read itself."""

_running = asyncio._get_running_loop
_bypassed = BYPASSED.get
"""Bound once: a method of an imported name is a new object at each call, which costs a hit from L1 a twentieth. The
running loop is None under trio. No runtime has that loop, so `Runtimes.here` is asked, and refuses."""


class HitsDoor:
    """A side door, because `serve` costs a second coroutine. With 64 callers of one key, that is a tenth of each hit.

    Each method repeats the lookup of the runtime, instead of calling a function for it.
    """

    def __init__(self, prefix: str, runtimes: Runtimes, modes: ModesDoor, hooks: Hooks) -> None:
        self.prefix = prefix
        self._runtimes = runtimes
        self._modes = modes
        self._resolver = modes.resolver
        self._hooks = hooks

    def near(self, plan: Plan, name: str) -> Any:
        """The copy that this process keeps (L1), or `NOTHING`."""
        standing = plan.standing
        if standing.said is not self._resolver.said:
            standing = self._modes.settle(plan)
        if not standing.shortest or self._hooks.any or _bypassed():
            return NOTHING
        runtime = self._runtimes.current
        if runtime is None or runtime.loop is not _running():
            runtime = self._runtimes.here()
        kept = runtime.l1.get(name)
        if kept is not None and runtime.l1.clock() < kept.until:
            return kept.given(plan.share)
        return NOTHING

    def near_finder(self, plan: Plan) -> Callable[..., Any] | None:
        """The same for a plain function, in its caller's thread: `find(name, share=...)`, without locks.

        None if there is nothing to find. Then the caller needs no name: in mode `off`, an argument need not fit a key.
        """
        self._modes.of(plan)
        runtime = self._runtimes.of(portal_loop())
        if runtime is None or not plan.standing.shortest or self._hooks.any or _bypassed():
            return None
        return runtime.l1.find

    def ask(self, plan: Plan, name: str) -> Question | None:
        """Begin a read, without a second coroutine, a hook or a tag. None: `serve` the call.

        The caller awaits the read. Then it calls `hit`, and if that has no value `found`; or `unread` after an error.
        """
        standing = plan.standing
        if standing.said is not self._resolver.said:
            standing = self._modes.settle(plan)
        if not standing.shortest or self._hooks.any or _bypassed():
            return None
        runtime = self._runtimes.current
        if runtime is None or runtime.loop is not _running():
            runtime = self._runtimes.here()
        if runtime.away or runtime.refused or name in runtime.flights:
            return None
        return runtime, runtime.l1.ask(name) if plan.l1 else None, runtime.read(name)

    def ask_all(self, plan: Plan, names: Collection[str]) -> list[Question | None]:
        """The same for many entries, in the same order. What is the same for all of them is looked up once."""
        if not names:
            return []
        self._modes.of(plan)
        if not plan.standing.shortest or self._hooks.any or _bypassed():
            return [None] * len(names)
        runtime = self._runtimes.here()
        if runtime.away or runtime.refused:
            return [None] * len(names)
        flights, l1, read = runtime.flights, runtime.l1.ask if plan.l1 else None, runtime.read
        return [
            None if name in flights else (runtime, l1(name) if l1 is not None else None, read(name))
            for name in names
        ]

    hit = staticmethod(serving.hit)
    found = staticmethod(serving.after_read)
    unread = staticmethod(serving.after_failed_read)
