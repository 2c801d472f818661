"""Several workers with the same jobs, in virtual time: each with a clock of its own, all with one back end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, TypeVar

from stampede_guard.jobs.backends.memory import runs_beside
from stampede_guard.jobs.messages import RunView
from stampede_guard.jobs.run import Run
from stampede_guard.jobs.scheduler import Jobs
from stampede_guard.leases.kinds import MemoryLeases
from stampede_guard.leases.memory import LeaseRows
from stampede_guard.leases.messages import Owner
from tests.leases.simulation.loop import VirtualLoop

__all__ = ["EPOCH", "Fleet", "Worker", "virtually"]

T = TypeVar("T")
EPOCH = 1_759_968_000.0
"""The back end's time at the beginning: a midnight in UTC, so that intervals are counted from it."""


def virtually(scenario: Callable[[Fleet], Awaitable[T]], *, seed: int = 0) -> T:
    """Run it on a loop whose time passes when nothing is left to do."""
    loop = VirtualLoop()
    try:
        fleet = Fleet(loop, Random(seed))
        return loop.run_until_complete(_whole(fleet, scenario))
    finally:
        asyncio.set_event_loop(None)
        loop.close()


async def _whole(fleet: Fleet, scenario: Callable[[Fleet], Awaitable[T]]) -> T:
    try:
        return await scenario(fleet)
    finally:
        for worker in list(fleet.workers):
            await worker.stop()
        # What is left belongs to the killed.
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=600)


class _World:
    def __init__(self, loop: VirtualLoop, chance: Random, *, rate: float, offset: float) -> None:
        self._loop, self._chance, self._rate, self._offset = loop, chance, rate, offset
        self.dead = False
        self._fresh = 0
        self._name = chance.getrandbits(64)

    def now(self) -> float:
        return self._offset + self._rate * self._loop.time()

    def later(self, seconds: float, call: Callable[[], object]) -> Callable[[], object]:
        return self._loop.call_later(
            max(0.0, seconds) / self._rate, lambda: None if self.dead else call()
        ).cancel

    def draw(self) -> float:
        return self._chance.random()

    def fresh(self) -> str:
        self._fresh += 1
        return f"{self._name:x}-{self._fresh}"


@dataclass
class Fleet:
    loop: VirtualLoop
    chance: Random
    workers: list[Worker] = field(default_factory=list)
    ran: list[tuple[str, int]] = field(default_factory=list)
    """(worker, slot in ms) of every call of a job's function."""

    def __post_init__(self) -> None:
        self.rows = LeaseRows(clock=self.time)
        self.begun = self.loop.time()
        self.step = 0.0
        """What the back end's clock was set by."""

    def time(self) -> float:
        return EPOCH + self.step + self.loop.time() - self.begun

    def worker(self, *, version: int = 0, **jobs: Any) -> Worker:
        """Not started. Clocks differ by any offset and by up to 1 % in rate."""
        name = f"w{len(self.workers)}"
        world = _World(
            self.loop, self.chance, rate=self.chance.uniform(0.99, 1.01), offset=self.chance.uniform(0, 1e6)
        )
        leases = MemoryLeases(
            rows=self.rows,
            namespace="shop",
            owner=Owner(process=name, pod=name),
            world=lambda: world,
        )
        worker = Worker(self, name, world, leases, Jobs(leases, version=version, **jobs))
        self.workers.append(worker)
        return worker

    def slots(self) -> Counter[int]:
        """How often the function was called for each slot, in seconds after the beginning."""
        return Counter(round(slot / 1000 - EPOCH) for _, slot in self.ran)

    async def until(self, seconds: float) -> None:
        """Until so long after the beginning."""
        await asyncio.sleep(self.begun + seconds - self.loop.time())

    async def history(self, job: str = "tick") -> dict[int, RunView]:
        """By slot, in seconds after the beginning."""
        runs = await runs_beside(self.rows).history(f"shop:{job}", limit=100_000)
        return {round(run.slot / 1000 - EPOCH): run for run in runs}

    async def outcomes(self, job: str = "tick") -> dict[int, str]:
        return {slot: run.outcome for slot, run in sorted((await self.history(job)).items())}


@dataclass
class Worker:
    fleet: Fleet
    name: str
    world: _World
    leases: MemoryLeases
    jobs: Jobs
    running: bool = False

    def tick(self, seconds: float, *, takes: float = 0.0, **terms: Any) -> Worker:
        """A job called `tick`, each so many seconds, whose body takes so long."""

        async def tick(run: Run) -> None:
            self.fleet.ran.append((self.name, round(run.slot.timestamp() * 1000)))
            await asyncio.sleep(takes)

        self.jobs.every(seconds, **terms)(tick)
        return self

    def start(self) -> Worker:
        self.jobs.start()
        self.running = True
        return self

    async def stop(self) -> None:
        if self.running:
            self.running = False
            await self.jobs.stop()
        await self.leases.aclose()

    def kill(self) -> None:
        """Its timers never fire again and it gives nothing back. What its jobs' bodies await must not end either."""
        self.running = False
        self.fleet.workers.remove(self)
        self.world.dead = True
