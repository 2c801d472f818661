"""Several who live on the same leases: jobs and jobs, jobs and elections; and what ends with whom."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard.errors import StoreUnavailable
from stampede_guard.jobs.backends.memory import MemoryRuns, runs_beside
from stampede_guard.jobs.run import Run
from stampede_guard.jobs.scheduler import Jobs
from stampede_guard.leases.kinds import MemoryLeases
from stampede_guard.leases.memory import MemoryBackend
from tests.jobs.fleet import Fleet, Worker, virtually
from tests.jobs.test_races import Between, seconds


class Closable(MemoryBackend):
    """As those with connections: closed, it answers nothing any more."""

    closed = False

    async def aclose(self) -> None:
        self.closed = True
        await super().aclose()

    async def release(self, name: str, **given: Any) -> bool:
        if self.closed:
            raise StoreUnavailable("the connections are closed")
        return await super().release(name, **given)


def closable(worker: Worker) -> list[Closable]:
    opened: list[Closable] = []

    def open_backend() -> Closable:
        opened.append(Closable(worker.fleet.rows))
        return opened[-1]

    worker.leases._open_backend = open_backend
    return opened


@pytest.mark.parametrize("inner", ["jobs", "elections"])
def test_who_ends_first_does_not_close_the_leases_of_those_who_go_on(inner: str) -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker()
        opened = closable(worker)
        outer, another = worker.jobs, Jobs(worker.leases)
        held: list[bool] = []

        @outer.every(10)
        async def slow(run: Run) -> None:
            await asyncio.sleep(5)
            held.append(run.lease.remaining() > 0)

        async with outer.lifespan():
            async with another.lifespan() if inner == "jobs" else worker.leases.lifespan():
                await fleet.until(11)
            await fleet.until(12)
            assert [backend.closed for backend in opened] == [False]
        assert held == [True]
        assert await fleet.outcomes("slow") == {10: "completed"}
        assert [backend.closed for backend in opened] == [True], "the last one closes them"

    virtually(scenario)


def test_a_claim_on_its_way_under_an_older_schedule_is_run_before_the_program_ends() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        between.after["claim"] = seconds(1)
        worker = fleet.worker(runs=lambda: between).tick(10).start()
        await fleet.until(10.5)
        worker.jobs.put(worker.jobs._jobs["tick"])
        await worker.stop()
        assert await fleet.outcomes() == {10: "completed"}
        assert fleet.slots() == {10: 1}
        assert not worker.leases._parts, "nothing was begun on connections that are closed"

    virtually(scenario)


async def test_each_event_loop_opens_the_back_end_of_runs_once_and_ends_its_own() -> None:
    class Runs(MemoryRuns):
        closed = False

        async def aclose(self) -> None:
            self.closed = True

    opened: list[Runs] = []

    def open_runs() -> Runs:
        opened.append(Runs())
        return opened[-1]

    jobs = Jobs(MemoryLeases(), runs=open_runs)

    async def elsewhere() -> None:
        for _ in range(3):
            await jobs.health()
            await asyncio.to_thread(asyncio.run, jobs.health())
            await jobs.health()

    async with jobs.lifespan():
        await jobs.health()
        await asyncio.to_thread(asyncio.run, elsewhere())
        await jobs.health()
        assert len(opened) == 1 + 1 + 3
        assert not opened[0].closed
    assert [runs.closed for runs in opened] == [True, False, False, False, False]
