"""Coroutines in virtual time: nothing is waited for, and whoever would wait for ever is told so."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any, TypeVar

from stampede_guard.leases.client import Leases
from stampede_guard.leases.memory import LeaseRows, MemoryBackend
from stampede_guard.leases.messages import Owner
from tests.leases.simulation.loop import VirtualLoop

__all__ = ["Fleet", "VirtualWorld", "virtually"]

T = TypeVar("T")


class VirtualWorld:
    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._chance = Random(7)
        self._numbers = itertools.count(1)
        self.prefix = f"{id(self):x}"

    def now(self) -> float:
        return self._loop.time()

    def later(self, seconds: float, call: Callable[[], object]) -> Callable[[], object]:
        return self._loop.call_later(max(0.0, seconds), call).cancel

    def draw(self) -> float:
        return self._chance.random()

    def fresh(self) -> str:
        return f"{self.prefix}-{next(self._numbers)}"


class Fleet:
    """Processes that share a memory back end in the virtual time of the running loop."""

    def __init__(self) -> None:
        self.rows = LeaseRows(asyncio.get_running_loop().time)
        self.all: list[Leases] = []
        self.at_end: list[Callable[[], Coroutine[Any, Any, None]]] = []

    def process(self, label: str, *, backend: Callable[[], Any] | None = None, **options: Any) -> Leases:
        leases = Leases(
            backend or (lambda: MemoryBackend(self.rows)),
            namespace="t",
            world=VirtualWorld,
            owner=Owner(process=f"process-{label}", label=label),
            **options,
        )
        self.all.append(leases)
        return leases

    def holder(self, name: str) -> str:
        """The label of who has it now; empty = nobody."""
        from stampede_guard.leases.core import grants

        row = grants.settled(self.rows.row(f"t:{name}"), self.rows.clock())
        return row.owner.label if row.holder else ""

    def waiting(self, name: str) -> list[str]:
        from stampede_guard.leases.core import grants

        row = grants.settled(self.rows.row(f"t:{name}"), self.rows.clock())
        return [place.owner.label for place in row.queue]


def virtually(main: Callable[[Fleet], Coroutine[Any, Any, T]]) -> T:
    """What `main(fleet)` returns. Everything is closed afterwards; no task may be left, and nobody may still listen."""
    loop = VirtualLoop()

    async def run() -> T:
        fleet = Fleet()
        try:
            return await main(fleet)
        finally:
            parts = [part for leases in fleet.all for part in leases._parts.values()]
            for leases in fleet.all:
                await leases.aclose()
            listening = [name for part in parts for name in part._waiting]
            assert not listening, listening
            for close in fleet.at_end:
                await close()
            left = asyncio.all_tasks() - {asyncio.current_task()}
            assert not left, left

    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(run())
    finally:
        asyncio.set_event_loop(None)
        loop.close()
