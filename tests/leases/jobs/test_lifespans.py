"""Several who live on the same leases: jobs and jobs, jobs and elections; and what ends with whom."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard.errors import StoreUnavailable
from stampede_guard.leases.jobs.run import Run
from stampede_guard.leases.jobs.scheduler import Jobs
from stampede_guard.leases.memory import MemoryBackend
from tests.leases.jobs.fleet import Fleet, Worker, virtually


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
