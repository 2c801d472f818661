"""The modes of a guard: it collects the settings from all sources and decides the mode of a call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from stampede_guard.engine.modes.modes import modes_from_environment
from stampede_guard.engine.modes.sample import sampled
from stampede_guard.engine.plan import Plan, Run, Standing
from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.policy import Mode
from stampede_guard.stores.switch import Switch

if TYPE_CHECKING:
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.modes.shadow import ShadowCounts

__all__ = ["ModeResolver"]


class ModeResolver:
    """The part of a guard that `guard.call` asks for the mode."""

    prefix: str
    _watch: Callable[[Plan, str, Run], object] | None = None

    def __init__(self) -> None:
        self._modes = modes_from_environment()
        self._asks_store = False
        """Whether a function of this guard has been in a mode that uses the store."""
        self._runtimes: dict[asyncio.AbstractEventLoop, Runtime] = {}
        self._lock = PassableLock()

    @property
    def mode(self) -> Mode | None:
        """The mode of all functions of this guard that do not set their own. None: the mode of the policy.

        It can be changed at any time, but an operator has priority: `stampede-guard mode` and `$STAMPEDE_GUARD_MODE`
        override the value set here. See `stampede_guard.engine.modes.modes`.
        """
        return self._modes.of_all

    @mode.setter
    def mode(self, mode: Mode | None) -> None:
        with self._lock:
            self._modes = self._modes.with_program(mode)

    def shadow_report(self) -> dict[str, ShadowCounts]:
        """Results of mode `shadow` in this process, by function. See
        `stampede_guard.engine.modes.shadow.ShadowCounts`.
        """
        found: dict[str, ShadowCounts] = {}
        for runtime in list(self._runtimes.values()):
            for title, counts in list(runtime.shadow.counts.items()):
                found[title] = found[title] + counts if title in found else counts
        return found

    def mode_of(self, plan: Plan, key: str | None = None) -> Mode:
        """The mode without `bypassed()`, which belongs to the caller and not to the function. `key`: for that key."""
        standing = plan.standing
        if standing.said is not self._modes:
            standing = self._settle(plan)
        if key is None or standing.sample >= 1.0 or standing.mode not in ("on", "shadow"):
            return standing.mode
        return standing.mode if sampled(self.prefix + key, standing.sample) else "off"

    def watch(self, call: Callable[[Plan, str, Run], object] | None) -> None:
        """Let `call(plan, key, run)` receive each call on the longer path. With a hook, every call takes that path."""
        self._watch = call

    def tell_watcher(self, plan: Plan, key: str, run: Run) -> None:
        if self._watch is not None:
            self._watch(plan, key, run)

    def samples(self, plan: Plan) -> bool:
        """Whether the mode of a call depends on its key."""
        mode = self.mode_of(plan)
        return plan.standing.sample < 1.0 and mode in ("on", "shadow")

    def _settle(self, plan: Plan) -> Standing:
        standing = self._modes.settle(plan)
        if standing.mode in ("on", "shadow") and not self._asks_store:
            self._asks_store = True
            for loop, runtime in list(self._runtimes.items()):
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(runtime.watch_switches)
        return standing

    def _switched(self, fleet: Mapping[str, Switch]) -> None:
        with self._lock:
            self._modes = self._modes.with_fleet(fleet)

    def part_of(self, loop: asyncio.AbstractEventLoop | None) -> Runtime | None:
        """This event loop's part of this guard, if there is one. May be called from any thread."""
        return None if loop is None else self._runtimes.get(loop)
