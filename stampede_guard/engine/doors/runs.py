"""Computations that are not simply awaited: in a thread, in a batch, or beside a look at the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from stampede_guard.engine.flights.batch import Batches, Gathering
from stampede_guard.engine.flights.computation import CURRENT
from stampede_guard.engine.modes.shadow import Look, on_its_loop
from stampede_guard.engine.refreshing import outdate_older
from stampede_guard.engine.threads.portal import portal, portal_loop
from stampede_guard.values.codec.batched import ABSENT

if TYPE_CHECKING:
    from stampede_guard.engine.loops.event_loops import Runtimes
    from stampede_guard.engine.loops.runtime import Runtime
    from stampede_guard.engine.plan import Plan, Run

__all__ = ["RunsDoor"]


class RunsDoor:
    """A side door for plain functions and for functions of many ids."""

    def __init__(self, runtimes: Runtimes) -> None:
        self._runtimes = runtimes

    def in_thread(self, compute: Callable[[], Any]) -> Run:
        """The computation of a plain function, in one of the guard's threads."""
        threads = self._runtimes.here().threads
        return lambda: threads.run(compute, CURRENT.get())

    def batch(self, owner: object, plan: Plan, group: Hashable, *, most: int) -> Gathering:
        """The calls of the function `owner` that may be computed together, at most so many ids in one call.

        The caller must `leave` it afterwards.
        """
        runtime = self._runtimes.here()
        batches = runtime.batches.get(owner)
        if batches is None:
            batches = runtime.batches[owner] = Batches(runtime, plan.title, most)
        return batches.gathering(group)

    async def outdate(self, plan: Plan, names: Iterable[str]) -> None:
        """A function was computed anew past the engine. Invalidate older values, as `refresh` does in such a mode."""
        runtime = self._runtimes.here()
        await asyncio.gather(*(outdate_older(runtime, plan, name) for name in names))

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
