"""The door of the engine: all that a guard's faces may ask of it.

A face (a decorator, a batch, the HTTP cache) makes names of entries and computations. The engine does the rest: it
decides the mode, reads the store, finds or begins a flight, and serves the caller. What is behind this door is private:
sessions of a store, flights, the memories of an event loop.

A name is complete: it begins with the namespace.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from stampede_guard.engine import serving
from stampede_guard.engine.away.health import StoreHealth
from stampede_guard.engine.calls import following
from stampede_guard.engine.direct.invalidating import Invalidation, outdate_entry, outdate_tag
from stampede_guard.engine.direct.peeking import peek
from stampede_guard.engine.direct.setting import Stored, encoded, set_value
from stampede_guard.engine.doors.hits import HitsDoor, Question
from stampede_guard.engine.doors.judged import JudgedDoor
from stampede_guard.engine.doors.modes import BYPASSED, ModesDoor
from stampede_guard.engine.doors.near import NearDoor
from stampede_guard.engine.doors.runs import RunsDoor
from stampede_guard.engine.doors.store import StoreDoor
from stampede_guard.engine.doors.tags import BLANK, TagsDoor, Versions, VersionsAsked
from stampede_guard.engine.flights.batch import Gathering, told_when_held
from stampede_guard.engine.flights.computation import CURRENT
from stampede_guard.engine.flights.reentry import is_beside
from stampede_guard.engine.flights.registry import bypassed_name
from stampede_guard.engine.l1 import NOTHING
from stampede_guard.engine.loops.event_loops import Runtimes
from stampede_guard.engine.modes.resolver import ModeResolver
from stampede_guard.engine.modes.shadow import ShadowCounts
from stampede_guard.engine.putting import PutGrant
from stampede_guard.engine.refreshing import let_land, outdate_older, refresh
from stampede_guard.engine.stats.counting import Sums
from stampede_guard.engine.stats.watching import Watching
from stampede_guard.engine.tags.late import EVERYWHERE, OF_ORIGIN, WINDOW, is_late
from stampede_guard.engine.tags.versions import TaggedCodec, tagged, tags_of, told_of
from stampede_guard.engine.told import ServedFrom, Told

if TYPE_CHECKING:
    from stampede_guard.engine.hooks import Hooks
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan, Run
    from stampede_guard.policy import Limits, Mode, Policy
    from stampede_guard.stores.protocol import Store

__all__ = [
    "BLANK",
    "CURRENT",
    "EVERYWHERE",
    "NOTHING",
    "OF_ORIGIN",
    "WINDOW",
    "Engine",
    "Gathering",
    "Invalidation",
    "PutGrant",
    "Question",
    "ServedFrom",
    "ShadowCounts",
    "StoreHealth",
    "Stored",
    "TaggedCodec",
    "Told",
    "Versions",
    "VersionsAsked",
    "bypassed_name",
    "is_beside",
    "tagged",
    "told_when_held",
]


class Engine:
    """The engine of one guard. A tenant's engine has another namespace, and shares everything else.

    Most faces need the calls below. What only some need has a side door: `hits`, `modes`, `runs`, `judged`, `near`,
    `store`, `tags`.
    """

    def __init__(
        self, store: Store, namespace: str, limits: Limits, hooks: Hooks, *, stats: bool = False
    ) -> None:
        resolver = ModeResolver()
        sums = Sums() if stats and store.shared else None
        if sums is not None:
            hooks.add(sums)
        watching = Watching(hooks) if store.shared else None
        runtimes = Runtimes(store, namespace, limits, hooks, resolver, sums, watching)
        if watching is not None:
            watching.gauges = runtimes.gauges
            watching.called = resolver.functions
        self._enter(namespace, runtimes, resolver, hooks)

    def within(self, namespace: str) -> Engine:
        """The engine of a tenant."""
        made = Engine.__new__(Engine)
        made._enter(namespace, self._runtimes, self.modes.resolver, self.hooks)
        return made

    def _enter(self, namespace: str, runtimes: Runtimes, resolver: ModeResolver, hooks: Hooks) -> None:
        self.prefix = f"{namespace}:"
        self.hooks = hooks
        self.modes = ModesDoor(self.prefix, runtimes, resolver)
        self.hits = HitsDoor(self.prefix, runtimes, self.modes, hooks)
        self.runs = RunsDoor(runtimes)
        self.judged = JudgedDoor(runtimes)
        self.near = NearDoor(runtimes)
        self.store = StoreDoor(runtimes, self.prefix)
        self.tags = TagsDoor(runtimes)
        self._runtimes = runtimes
        self._watch: Callable[[Plan, str, Run], object] | None = None

    # --- calls ---------------------------------------------------------------------------------

    def serve(self, plan: Plan, name: str, run: Run, *, mode: Mode | None = None) -> Awaitable[Any]:
        """One call of the function of `plan`, in the mode that holds for this caller and entry.

        Give the `mode` if it was looked up before: `modes.of_caller` may return another one a moment later.
        """
        if self._watch is not None:
            self._watch(plan, name.removeprefix(self.prefix), run)
        if mode is None:
            mode = self.modes.of_caller(plan, name)
        if mode in ("off", "shadow") and (told := told_of(run)) is not None:
            told.note("bypass")
        if mode == "off":
            return run()
        runtime = self._runtimes.here()
        if mode == "on":
            return serving.serve(runtime, plan, name, run)
        if mode == "shadow":
            return runtime.shadow.call(plan, name, run)
        doors = BYPASSED.get()

        async def bypassed_inside() -> Any:
            # A computation has its own context, which does not know the caller's `with` block.
            BYPASSED.set(doors)
            return await run()

        compute = tagged(following(bypassed_inside, run), tags_of(run), told_of(run)) if doors else run
        return serving.serve_bypassed(runtime, plan, name, compute, within=frozenset(doors))

    async def refresh(self, plan: Plan, name: str, run: Run, *, mode: Mode | None = None) -> Any:
        """Compute again; until then, callers get the old value.

        In modes that do not use the store, the older value is invalidated: it is not served when the mode is on again.
        """
        if mode is None:
            mode = self.modes.of_caller(plan, name)
        runtime = self._runtimes.here()
        if mode == "on":
            return await refresh(runtime, plan, name, run)
        if mode == "bypass":
            await let_land(runtime, plan, name, serving.bypassed_place(name, set(BYPASSED.get())))
        value = await self.serve(plan, name, run, mode=mode)
        await outdate_older(runtime, plan, name, looks=mode == "shadow")
        return value

    async def peek(self, plan: Plan, name: str, tags: tuple[str, ...] = ()) -> Any:
        """The fresh value, or `NOTHING`: in this mode and at this moment, a call would not be served from the store."""
        if self.modes.of_caller(plan, name) != "on":
            return NOTHING
        return await peek(self._runtimes.here(), plan, name, tags)

    async def set(self, plan: Plan, name: str, value: Any, tags: tuple[str, ...] = ()) -> Stored:
        """Store a value that the caller has. It is newer than every computation that began before.

        In modes that do not use the store, the older value is invalidated: it is not served when the mode is on again.
        Raises `UnsupportedValue` and `StoreRefused`.
        """
        body, policy = encoded(plan, value)
        if policy is not None and self.modes.of_caller(plan, name) in ("on", "shadow"):
            return await set_value(self._runtimes.here(), plan, name, body, policy, tags)
        told = await self.invalidate(name, plan.policy)
        return "dropped" if told == "done" else "pending"

    async def invalidate(self, name: str, policy: Policy, *, told: bool = True) -> Invalidation:
        """Invalidate in every mode: stored values are served again when the mode returns to `on`. `told` is False for
        a part of something else that the hooks are told of.
        """
        return await outdate_entry(self._runtimes.here(), self.hooks if told else None, name, policy)

    async def invalidate_tag(self, name: str) -> Invalidation:
        """Invalidate all entries with this tag, in every mode."""
        if is_late(name.removeprefix(self.prefix)):
            # First: see `engine.tags.late`.
            await self._runtimes.here().invalidate_tag(self.prefix + WINDOW)
        return await outdate_tag(self._runtimes.here(), self.hooks, name)

    def watch(self, call: Callable[[Plan, str, Run], object] | None) -> None:
        """Let `call(plan, key, run)` receive each call on the longer path. With a hook, every call takes that path."""
        self._watch = call

    # --- the end -------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Close the parts of this event loop and of plain functions."""
        await self._runtimes.aclose()

    def close(self) -> None:
        """Close the part of plain functions."""
        self._runtimes.close()

    def runtime(self) -> Runtime:
        """The part of the running event loop. For tests of the engine: no face may use it."""
        return self._runtimes.here()
