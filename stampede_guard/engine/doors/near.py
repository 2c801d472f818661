"""Copies in the process (L1), for a face that judges freshness itself."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from stampede_guard.engine import serving
from stampede_guard.engine.l1 import NOTHING

if TYPE_CHECKING:
    from stampede_guard.core.entry import Reading
    from stampede_guard.engine.l1 import Asked
    from stampede_guard.engine.loops.event_loops import Runtimes
    from stampede_guard.engine.plan import Plan

__all__ = ["NearDoor"]

_running = asyncio._get_running_loop


class NearDoor:
    """A side door, because `serve` and `HitsDoor` use copies by themselves. For entries without tags only."""

    def __init__(self, runtimes: Runtimes) -> None:
        self._runtimes = runtimes

    def find(self, name: str) -> tuple[Any, float] | None:
        """The copy, and its seconds in the store. All callers get the same object."""
        runtime = self._runtimes.current
        if runtime is None or runtime.loop is not _running():
            runtime = self._runtimes.here()
        if runtime.orders:
            runtime.obey()
        value = runtime.l1.find(name, share=True)
        return None if value is NOTHING else (value, runtime.l1.age(name))

    def ask(self, plan: Plan, name: str) -> Asked | None:
        """Call this before a read. None: its value cannot be kept."""
        return self._runtimes.here().l1.ask(name) if plan.l1 else None

    def keep(self, plan: Plan, name: str, reading: Reading, asked: Asked) -> None:
        """Keep the value of a read, if it is fresh, and if the store has answered the read."""
        runtime = self._runtimes.here()
        if not runtime.away and not runtime.refused:
            serving.keep_near(runtime, plan, name, reading, asked)
