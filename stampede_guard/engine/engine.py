"""The door of the engine: all that a guard's faces may ask of it.

A face (a decorator, a batch, the HTTP cache) makes names of entries and computations. The engine does the rest: it
decides the mode, reads the store, finds or begins a flight, and serves the caller. What is behind this door is private:
sessions of a store, flights, the memories of an event loop.

A name is complete: it begins with the namespace.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Iterator, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from stampede_guard.engine import serving
from stampede_guard.engine.away.health import StoreHealth
from stampede_guard.engine.away.healthcheck import check_health
from stampede_guard.engine.calls import following
from stampede_guard.engine.direct.invalidating import Invalidation
from stampede_guard.engine.direct.setting import Stored
from stampede_guard.engine.direct.values import StoredValues
from stampede_guard.engine.flights.batch import Batches, Gathering, told_when_held
from stampede_guard.engine.flights.computation import CURRENT
from stampede_guard.engine.flights.reentry import is_beside
from stampede_guard.engine.flights.registry import bypassed_name
from stampede_guard.engine.l1 import NOTHING
from stampede_guard.engine.loops.event_loops import Runtimes
from stampede_guard.engine.modes.resolver import ModeResolver
from stampede_guard.engine.modes.sample import sampled
from stampede_guard.engine.modes.shadow import Look, ShadowCounts, on_its_loop
from stampede_guard.engine.refreshing import refresh
from stampede_guard.engine.stats.counting import Sums
from stampede_guard.engine.stats.watching import Watching
from stampede_guard.engine.tags.versions import TaggedCodec, tagged, tags_of, told_of
from stampede_guard.engine.threads.portal import portal, portal_loop
from stampede_guard.engine.told import ServedFrom, Told
from stampede_guard.values.codec.batched import ABSENT

if TYPE_CHECKING:
    from stampede_guard.core.entry import Reading
    from stampede_guard.engine.hooks import Hooks
    from stampede_guard.engine.l1 import Asked
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan, Run, Standing
    from stampede_guard.engine.previous import Previous
    from stampede_guard.policy import Limits, Mode
    from stampede_guard.stores.protocol import Store

__all__ = [
    "CURRENT",
    "NOTHING",
    "Engine",
    "Gathering",
    "Invalidation",
    "Question",
    "ServedFrom",
    "ShadowCounts",
    "StoreHealth",
    "Stored",
    "TaggedCodec",
    "Told",
    "bypassed_name",
    "is_beside",
    "tagged",
    "told_when_held",
]

Question = tuple["Runtime", "Asked | None", "asyncio.Future[Reading | None]"]
"""Where a read was sent, whether its value may be kept in L1, and the read itself."""

_BYPASSED: ContextVar[tuple[Engine, ...]] = ContextVar("stampede_guard_bypassed", default=())
_running = asyncio.get_running_loop


class Engine(StoredValues):
    """The engine of one guard. A tenant's engine has another namespace, and shares everything else."""

    def __init__(
        self, store: Store, namespace: str, limits: Limits, hooks: Hooks, *, stats: bool = False
    ) -> None:
        modes = ModeResolver()
        sums = Sums() if stats and store.shared else None
        if sums is not None:
            hooks.add(sums)
        watching = Watching(hooks) if store.shared else None
        runtimes = Runtimes(store, namespace, limits, hooks, modes, sums, watching)
        if watching is not None:
            watching.gauges = runtimes.gauges
        self._enter(namespace, runtimes, modes, hooks)

    def within(self, namespace: str) -> Engine:
        """The engine of a tenant."""
        made = Engine.__new__(Engine)
        made._enter(namespace, self._runtimes, self.modes, self.hooks)
        return made

    def _enter(self, namespace: str, runtimes: Runtimes, modes: ModeResolver, hooks: Hooks) -> None:
        self.prefix = f"{namespace}:"
        self.modes = modes
        self.hooks = hooks
        self._runtimes = runtimes
        self._watch: Callable[[Plan, str, Run], object] | None = None

    # --- calls ---------------------------------------------------------------------------------

    def near(self, plan: Plan, name: str) -> Any:
        """The copy that this process keeps (L1), or `NOTHING`. It takes the shortest path: see `read`."""
        standing = plan.standing
        if standing.said is not self.modes.said:
            standing = self._settle(plan)
        if not standing.shortest or self.hooks.any or _BYPASSED.get():
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
        self.mode_of(plan)
        runtime = self._runtimes.of(portal_loop())
        if runtime is None or not plan.standing.shortest or self.hooks.any or _BYPASSED.get():
            return None
        return runtime.l1.find

    def ask(self, plan: Plan, name: str) -> Question | None:
        """Begin the shortest path of a call: a read, without a second coroutine, a hook or a tag. None: `serve` it.

        The caller awaits the read. Then it calls `hit`, and if that has no value `found`; or `unread` after an error.
        With 64 callers of one key, a second coroutine would add a tenth to the cost of each hit.
        """
        standing = plan.standing
        if standing.said is not self.modes.said:
            standing = self._settle(plan)
        if not standing.shortest or self.hooks.any or _BYPASSED.get():
            return None
        runtime = self._runtimes.current
        if runtime is None or runtime.loop is not _running():
            runtime = self._runtimes.here()
        if runtime.away or runtime.refused or name in runtime.flights:
            return None
        return runtime, runtime.l1.ask(name) if plan.l1 else None, runtime.read(name)

    hit = staticmethod(serving.hit)
    found = staticmethod(serving.after_read)
    unread = staticmethod(serving.after_failed_read)

    def serve(self, plan: Plan, name: str, run: Run, *, mode: Mode | None = None) -> Awaitable[Any]:
        """One call of the function of `plan`, in the mode that holds for this caller and entry.

        Give the `mode` if it was looked up before: `mode_of_caller` may return another one a moment later.
        """
        if self._watch is not None:
            self._watch(plan, name.removeprefix(self.prefix), run)
        if mode is None:
            mode = self.mode_of_caller(plan, name)
        if mode in ("off", "shadow") and (told := told_of(run)) is not None:
            told.note("bypass")
        if mode == "off":
            return run()
        runtime = self._runtimes.here()
        if mode == "on":
            return serving.serve(runtime, plan, name, run)
        if mode == "shadow":
            return runtime.shadow.call(plan, name, run)
        engines = _BYPASSED.get()

        async def bypassed_inside() -> Any:
            # A computation has its own context, which does not know the caller's `with` block.
            _BYPASSED.set(engines)
            return await run()

        compute = tagged(following(bypassed_inside, run), tags_of(run), told_of(run)) if engines else run
        return serving.serve_bypassed(runtime, plan, name, compute, within=frozenset(engines))

    async def refresh(self, plan: Plan, name: str, run: Run, *, mode: Mode | None = None) -> Any:
        """Compute again; until then, callers get the old value. Without the store, this is a plain call."""
        if mode is None:
            mode = self.mode_of_caller(plan, name)
        if mode != "on":
            return await self.serve(plan, name, run, mode=mode)
        return await refresh(self._runtimes.here(), plan, name, run)

    def batch(self, owner: object, plan: Plan, group: Hashable, *, most: int) -> Gathering:
        """The calls of the function `owner` that may be computed together, at most so many ids in one call.

        The caller must `leave` it afterwards.
        """
        runtime = self._runtimes.here()
        batches = runtime.batches.get(owner)
        if batches is None:
            batches = runtime.batches[owner] = Batches(runtime, plan.title, most)
        return batches.gathering(group)

    def compare_many(
        self, plan: Plan, entries: Mapping[Any, tuple[str, tuple[str, ...]]], run: Run
    ) -> Awaitable[Any]:
        """Mode `shadow` for a function of many ids. `entries`: names and tags of the ids that are looked at."""
        return self._runtimes.here().shadow.call_many(plan, entries, run, ABSENT)

    def compare_plain(self, plan: Plan, name: str, tags: tuple[str, ...], compute: Callable[[], Any]) -> Any:
        """Mode `shadow` for a plain function. It computes in its caller's thread; the portal's loop compares."""

        async def its_part() -> Runtime:
            return self._runtimes.here()

        runtime = self._runtimes.of(portal_loop()) or portal().call(its_part)
        return on_its_loop(runtime, Look(runtime.shadow, plan, name, tags), compute)

    def in_thread(self, compute: Callable[[], Any]) -> Run:
        """The computation of a plain function, in one of the guard's threads."""
        threads = self._runtimes.here().threads
        return lambda: threads.run(compute, CURRENT.get())

    # --- for the HTTP cache, which judges freshness itself --------------------------------------

    def compute(
        self, plan: Plan, name: str, run: Run, old: Reading | None, *, bypassed: bool
    ) -> Awaitable[Any]:
        """A value newer than `old`, for a caller that cannot use it."""
        runtime = self._runtimes.here()
        if bypassed:
            return serving.serve_bypassed(runtime, plan, name, run)
        return serving.fly(runtime, plan, name, run, old)

    def may_refresh(self, name: str, old: Reading) -> bool:
        """Whether a refresh of `old` in the background is of use now."""
        runtime = self._runtimes.here()
        return not (
            name in runtime.flights
            or runtime.closing
            or runtime.failing.hold(name, old.token)
            or len(runtime.flights) >= runtime.limits.max_flights
        )

    def refresh_behind(self, plan: Plan, name: str, run: Run, old: Reading) -> None:
        """In the background, once fleet-wide."""
        runtime = self._runtimes.here()
        flight = runtime.take_off(name, plan, run, (), kind="refresh", newer_than=old.token)
        flight.know(old)

    @property
    def is_computing(self) -> bool:
        """Whether any flight is under way in this event loop."""
        runtime = self._runtimes.current
        if runtime is None or runtime.loop is not _running():
            runtime = self._runtimes.here()
        return bool(runtime.flights)

    def replaced(self, name: str) -> Previous | Any:
        """What the running flight of this entry replaces, or None. `NOTHING`: there is no flight that all may join."""
        flight = self._runtimes.here().flights.get(name)
        return NOTHING if flight is None or not flight.open_to_all else flight.old

    # --- modes ---------------------------------------------------------------------------------

    def mode_of(self, plan: Plan, name: str | None = None) -> Mode:
        """The mode without `bypassed()`, which belongs to the caller and not to the function. `name`: of that entry."""
        standing = plan.standing
        if standing.said is not self.modes.said:
            standing = self._settle(plan)
        if name is None or standing.sample >= 1.0 or standing.mode not in ("on", "shadow"):
            return standing.mode
        return standing.mode if sampled(name, standing.sample) else "off"

    def samples(self, plan: Plan) -> bool:
        """Whether the mode of a call depends on its key."""
        mode = self.mode_of(plan)
        return plan.standing.sample < 1.0 and mode in ("on", "shadow")

    def _settle(self, plan: Plan) -> Standing:
        standing = self.modes.said.settle(plan)
        if standing.mode in ("on", "shadow"):
            self._runtimes.ask_store()
        return standing

    def mode_of_caller(self, plan: Plan, name: str | None = None) -> Mode:
        """The result of `mode_of`, or "bypass" within a `bypassed()` block of this guard."""
        mode = self.mode_of(plan, name)
        return "bypass" if mode != "off" and self._is_bypassed() else mode

    @contextlib.contextmanager
    def bypassed(self) -> Iterator[None]:
        """Within the block, calls of the current task do not use the store."""
        token = _BYPASSED.set((*_BYPASSED.get(), self))
        try:
            yield
        finally:
            _BYPASSED.reset(token)

    @staticmethod
    def bypassed_engines() -> frozenset[Engine]:
        """Those whose `bypassed()` block the caller is in. Its computations do not use their stores."""
        return frozenset(_BYPASSED.get())

    def _is_bypassed(self) -> bool:
        engines = _BYPASSED.get()
        return bool(engines) and any(engine._covers(self) for engine in engines)

    def _covers(self, other: Engine) -> bool:
        """Whether the other is this one or within it. Compares names: a tenant's engine may be a new object."""
        return self._runtimes is other._runtimes and other.prefix.startswith(self.prefix)

    def watch(self, call: Callable[[Plan, str, Run], object] | None) -> None:
        """Let `call(plan, key, run)` receive each call on the longer path. With a hook, every call takes that path."""
        self._watch = call

    def shadow_report(self) -> dict[str, ShadowCounts]:
        """Results of mode `shadow` in this process, by function."""
        found: dict[str, ShadowCounts] = {}
        for runtime in self._runtimes.all():
            for title, counts in list(runtime.shadow.counts.items()):
                found[title] = found[title] + counts if title in found else counts
        return found

    # --- the store, and the end ----------------------------------------------------------------

    @property
    def is_shared(self) -> bool:
        """Whether other processes use the same store."""
        return self._runtimes.store.shared

    @contextlib.contextmanager
    def on_store(self, store: Store) -> Iterator[None]:
        """Within the block, this engine and its tenants use another store. For tests."""
        with self._runtimes.on_store(store):
            yield

    def health(self) -> StoreHealth:
        """What this process knows about the store. Sends nothing."""
        return self._runtimes.health.look()

    async def check_health(self) -> StoreHealth:
        """The same after one read from the store."""
        return await check_health(self._runtimes.here(), f"{self.prefix}health")

    def runtime(self) -> Runtime:
        """The part of the running event loop. For tests of the engine: no face may use it."""
        return self._runtimes.here()

    async def aclose(self) -> None:
        """Close the parts of this event loop and of plain functions."""
        await self._runtimes.aclose()

    def close(self) -> None:
        """Close the part of plain functions."""
        self._runtimes.close()
