"""The mode of a call: what the guard, its operator and the caller say."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING

from stampede_guard.engine.modes.modes import checked_switch
from stampede_guard.engine.modes.sample import sampled
from stampede_guard.engine.modes.shadow import ShadowCounts
from stampede_guard.errors import StoreError
from stampede_guard.stores.fleet.telling import tell_operator

if TYPE_CHECKING:
    from stampede_guard.durations import Duration
    from stampede_guard.engine.loops.event_loops import Runtimes
    from stampede_guard.engine.modes.resolver import ModeResolver
    from stampede_guard.engine.plan import Plan, Standing
    from stampede_guard.policy import Mode

__all__ = ["BYPASSED", "ModesDoor"]

BYPASSED: ContextVar[tuple[ModesDoor, ...]] = ContextVar("stampede_guard_bypassed", default=())
"""The guards in whose `bypassed()` block the caller is."""


class ModesDoor:
    """Which mode holds. A side door, because only faces with a way of their own for a mode ask: `serve` knows it."""

    def __init__(self, prefix: str, runtimes: Runtimes, resolver: ModeResolver) -> None:
        self.resolver = resolver
        self._prefix = prefix
        self._runtimes = runtimes

    def of(self, plan: Plan, name: str | None = None) -> Mode:
        """The mode without `bypassed()`, which belongs to the caller and not to the function. `name`: of that entry."""
        standing = plan.standing
        if standing.said is not self.resolver.said:
            standing = self.settle(plan)
        if name is None or standing.sample >= 1.0 or standing.mode not in ("on", "shadow"):
            return standing.mode
        return standing.mode if sampled(name, standing.sample) else "off"

    def of_caller(self, plan: Plan, name: str | None = None) -> Mode:
        """The result of `of`, or "bypass" within a `bypassed()` block of this guard."""
        mode = self.of(plan, name)
        return "bypass" if mode != "off" and BYPASSED.get() and self._is_bypassed() else mode

    def samples(self, plan: Plan) -> bool:
        """Whether the mode of a call depends on its key."""
        mode = self.of(plan)
        return plan.standing.sample < 1.0 and mode in ("on", "shadow")

    def settle(self, plan: Plan) -> Standing:
        """Look the mode up anew, after a change of the settings."""
        standing = self.resolver.said.settle(plan)
        self.resolver.called.note(plan)
        if standing.mode in ("on", "shadow"):
            self._runtimes.ask_store()
        return standing

    @property
    def of_all(self) -> Mode | None:
        """The mode of all functions without a setting of their own. None: the mode of the policy."""
        return self.resolver.of_all

    def set_program(self, mode: Mode | None) -> None:
        """The program's own setting. Raises `PolicyError`."""
        self.resolver.set_program(mode)

    async def switch(
        self, title: str, mode: Mode | None, *, sample: float | None, lasting: Duration | None, by: str
    ) -> int:
        """Set a switch of the whole fleet; None removes it. How many sessions heard of it. Raises `StoreError`."""
        switch = checked_switch(title, mode, sample=sample, lasting=lasting)
        runtime, namespace = self._runtimes.here(), self._prefix.removesuffix(":")
        session = runtime.session
        told = await session.switch(namespace, title, switch)
        await runtime.read_switches()
        said = f"{title} {'has its own mode again' if switch is None else f'is in mode {switch}'}"
        # The switch is set, also if nobody can read who did it.
        with contextlib.suppress(StoreError):
            await tell_operator(session, namespace, what="mode", function=title, user=by, said=said)
        return told

    @contextlib.contextmanager
    def bypassed(self) -> Iterator[None]:
        """Within the block, calls of the current task do not use the store."""
        token = BYPASSED.set((*BYPASSED.get(), self))
        try:
            yield
        finally:
            BYPASSED.reset(token)

    @staticmethod
    def bypassed_by() -> frozenset[ModesDoor]:
        """Those whose `bypassed()` block the caller is in. Its computations do not use their stores."""
        return frozenset(BYPASSED.get())

    def shadow_report(self) -> dict[str, ShadowCounts]:
        """Results of mode `shadow` in this process, by function."""
        found: dict[str, ShadowCounts] = {}
        for runtime in self._runtimes.all():
            for title, counts in list(runtime.shadow.counts.items()):
                found[title] = found[title] + counts if title in found else counts
        return found

    def _is_bypassed(self) -> bool:
        doors = BYPASSED.get()
        return bool(doors) and any(door._covers(self) for door in doors)

    def _covers(self, other: ModesDoor) -> bool:
        """Whether the other is this one or within it. Compares names: a tenant's engine may be a new object."""
        return self._runtimes is other._runtimes and other._prefix.startswith(self._prefix)
