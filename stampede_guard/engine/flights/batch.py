"""Batches: one call of the user's function computes the values of many entries.

Each entry keeps its own flight, lease and token. The protocol does not know about batches. This module gathers the
computations of those flights. They start within a moment of each other, because their acquire commands travelled
together. One call of the function then computes all of them.

When does a batch begin? Entries that were asked for together are undecided at first. The flight of an entry is then
granted the lease (the entry joins the batch), finds the lease held elsewhere, or finds a value. The batch begins when
no entry is undecided. A batch never waits for another batch, so two batches cannot wait for each other.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from stampede_guard.engine.away.slots import StoreIsBack
from stampede_guard.engine.flights.computation import CURRENT
from stampede_guard.engine.flights.once import Once
from stampede_guard.engine.flights.reentry import behind
from stampede_guard.engine.tasks import contained, ended, error_of
from stampede_guard.errors import ComputeFailed, Overloaded
from stampede_guard.values.codec.batched import ABSENT, checked
from stampede_guard.values.errorcopies import copy_of

if TYPE_CHECKING:
    from stampede_guard.engine.loops.runtime import Runtime

__all__ = ["Batches", "Gathering", "Start", "told_when_held"]

GATHER_SECONDS = 0.1
"""The longest time that a batch waits for undecided entries. An entry that is granted later joins the next batch."""

Start = Callable[[list[Any]], Awaitable[Any]]
"""Calls the user's function for these ids."""


class Batches:
    """The batches of one function in one event loop. `most`: the largest number of ids in one call."""

    def __init__(self, runtime: Runtime, title: str, most: int) -> None:
        self.runtime = runtime
        self.title = title
        self.most = most
        self._expected: dict[str, set[Gathering]] = {}
        self._gatherings: dict[Hashable, Gathering] = {}

    def gathering(self, group: Hashable) -> Gathering:
        """The gathering of calls that differ only in their ids. The call must `leave` it afterwards."""
        found = self._gatherings.get(group)
        if found is None:
            found = self._gatherings[group] = Gathering(self, group)
        found.calls += 1
        return found

    def leave(self, gathering: Gathering) -> None:
        gathering.calls -= 1
        if not gathering.calls and self._gatherings.get(gathering.group) is gathering:
            del self._gatherings[gathering.group]

    def expect(self, names: Iterable[str], gathering: Gathering) -> None:
        """Mark entries as undecided. One that has a flight already is not marked: its callers join the flight."""
        expected, flights, undecided = self._expected, self.runtime.flights, gathering.undecided
        for name in names:
            groups = expected.get(name)
            if groups is not None:
                groups.add(gathering)
            elif name in flights:
                continue
            else:
                expected[name] = {gathering}
            undecided.add(name)

    def decided(self, names: Iterable[str]) -> None:
        """These entries were granted, held elsewhere, found, or failed, in any of the calls that asked for them."""
        expected = self._expected
        for name in names:
            if name in expected:
                for gathering in expected.pop(name):
                    gathering.decided(name)


def told_when_held(owner: object) -> Callable[[Runtime, str], None]:
    """For `Plan.on_wait`: an entry whose lease is held elsewhere is decided, for the batches of this function."""

    def held(runtime: Runtime, name: str) -> None:
        batches = runtime.batches.get(owner)
        if batches is not None:
            batches.decided((name,))

    return held


class Gathering:
    """Calls whose ids can be computed together. It has at most one open batch."""

    def __init__(self, batches: Batches, group: Hashable) -> None:
        self.group = group
        self.calls = 0
        self.undecided: set[str] = set()
        self.open: _Batch | None = None
        self._batches = batches

    def expect(self, names: Iterable[str]) -> None:
        """See `Batches.expect`."""
        self._batches.expect(names, self)

    def settle(self, names: Iterable[str]) -> None:
        """See `Batches.decided`. Most entries of a call that ends are decided already."""
        self._batches.decided(names)

    def leave(self) -> None:
        """The call that asked for this gathering has ended."""
        self._batches.leave(self)

    def decided(self, name: str) -> None:
        self.undecided.discard(name)
        if self.open is not None:
            self.open.decided(name)

    async def compute(self, name: str, id: Any, start: Start) -> Any:
        """The value of one id, or `ABSENT`. The open batch computes it, or else a new one."""
        self._batches.decided((name,))
        batch = self.open
        if batch is not None and batch.has_equal(id, name):
            # True, 1 and 1.0 are three entries, but one and the same key of a dict: this id needs another batch.
            batch.begin()
            batch = None
        if batch is None:
            batch = self.open = _Batch(self, self._batches, start)
        return await batch.result_of(id, name)


class _Batch:
    """One call of the user's function. It runs in the context of its first id's computation, which is a clean one."""

    def __init__(self, gathering: Gathering, batches: Batches, start: Start) -> None:
        self._gathering = gathering
        self._batches = batches
        self._start = start
        self._context = contextvars.copy_context()
        self._leader = CURRENT.get()
        self._ids: dict[Any, int] = {}
        self._names: dict[Any, str] = {}
        self.began: float | None = None
        self._awaited = set(gathering.undecided)
        self._task: asyncio.Task[Mapping[Any, Any]] | None = None
        self._loop = batches.runtime.loop
        self._timer: asyncio.Handle = self._loop.call_later(GATHER_SECONDS, self.begin)
        self._finished = Once(self._loop)
        if not self._awaited:
            self._begin_soon()

    def turn(self) -> float:
        """When it got, or may get, its turn without the store: its computation has the whole time from then on."""
        return self._loop.time() if self.began is None else self.began

    def decided(self, name: str) -> None:
        if name in self._awaited:
            self._awaited.discard(name)
            if not self._awaited:
                self._begin_soon()

    def has_equal(self, id: Any, name: str) -> bool:
        """Whether the batch has a different id that a dict would treat as equal to this one."""
        return self._names.get(id, name) != name

    async def result_of(self, id: Any, name: str) -> Any:
        """The value of one id. A cancelled caller takes its id out again. The last one to leave cancels the call."""
        self._names[id] = name
        self._ids[id] = self._ids.get(id, 0) + 1
        if len(self._ids) >= self._batches.most:
            self.begin()
        mine, finished = CURRENT.get(), self._finished.join()
        if mine is not None and mine.computation.is_alone:
            mine.computation.turn_of_batch = self.turn
        try:
            with behind(mine, self._leader):
                await finished
        except asyncio.CancelledError:
            self._finished.leave(finished)
            await self._leave(id)
            raise
        assert self._task is not None
        if self._task.cancelled():
            raise ComputeFailed("CancelledError", "the computation was cancelled from within")
        error = error_of(self._task)
        if error is not None:
            # Each id has its own flight, and each flight writes into the traceback of the error that it raises.
            raise copy_of(error) or error
        return self._task.result().get(id, ABSENT)

    async def _leave(self, id: Any) -> None:
        self._ids[id] -= 1
        if not self._ids[id] and self._task is None:
            del self._ids[id], self._names[id]
        if any(self._ids.values()):
            return
        if self._task is None:
            self._close()
        elif not self._task.done():
            self._task.cancel()
            # If the function does not end, `Runtime.unwind` stops waiting and counts this task as abandoned.
            await ended(self._task)

    def _begin_soon(self) -> None:
        # Entries that are granted in the same turn of the event loop then join this batch.
        self._timer.cancel()
        self._timer = self._loop.call_soon(self.begin)

    def _close(self) -> None:
        self._timer.cancel()
        if self._gathering.open is self:
            self._gathering.open = None

    def begin(self) -> None:
        if self._task is not None or not self._ids:
            return
        self._close()
        ids = list(self._ids)
        self._task = self._loop.create_task(
            contained(lambda: self._compute(ids)), name="stampede_guard batch", context=self._context
        )
        self._task.add_done_callback(self._finish)

    def _finish(self, task: asyncio.Task[Mapping[Any, Any]]) -> None:
        if not task.cancelled():
            task.exception()  # marks the error as retrieved: all callers may have left
        self._finished.happen()

    async def _compute(self, ids: list[Any]) -> Mapping[Any, Any]:
        leader = self._leader
        if leader is not None and leader.computation.is_alone and not leader.bypassed:
            try:
                async with leader.computation.turn_without_store():
                    if leader.computation.is_back:
                        raise StoreIsBack
                    leader.computation.has_its_turn()
                    return await self._computed(ids)
            except Overloaded:
                if self.began is None and leader.computation.is_back:
                    raise StoreIsBack from None
                raise
        return await self._computed(ids)

    async def _computed(self, ids: list[Any]) -> Mapping[Any, Any]:
        self.began = self._loop.time()
        return checked(await self._start(ids), ids, self._batches.title)
