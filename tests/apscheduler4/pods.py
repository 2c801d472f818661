"""Schedulers of APScheduler 4, each with a data store and leases of its own, as processes have them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from apscheduler import AsyncScheduler, Event, JobReleased
from apscheduler.abc import Trigger

from stampede_guard.jobs import Jobs
from stampede_guard.jobs.apscheduler.apscheduler4 import once_per_slot
from stampede_guard.jobs.messages import RunView
from stampede_guard.leases import Leases, MemoryLeases
from stampede_guard.leases.memory import LeaseRows
from tests.support.gate import until

__all__ = ["Pod", "in_memory", "next_second", "standing"]


def next_second() -> datetime:
    """The end of this one: a beginning that all workers of a test have in common."""
    return datetime.fromtimestamp(int(datetime.now(UTC).timestamp()) + 1, UTC)


def in_memory(rows: LeaseRows) -> Callable[[], Leases]:
    return lambda: MemoryLeases(rows=rows, namespace="shop")


class Pod:
    """One worker. `released`: how its scheduler's jobs ended, by APScheduler's word."""

    def __init__(self, leases: Leases) -> None:
        self.leases = leases
        self.jobs = Jobs(leases)
        self.scheduler = AsyncScheduler()
        self.released: list[JobReleased] = []

    async def schedule(
        self, function: Callable[..., Any], trigger: Trigger, id: str | None = "tick", **terms: Any
    ) -> None:
        """`terms`: of `once_per_slot` in `slot=`, else of `add_schedule`."""
        once = once_per_slot(self.jobs, **terms.pop("slot", {}))(function)
        task = f"task of {id}"
        await self.scheduler.configure_task(task, func=once, job_executor=terms.pop("job_executor", "async"))
        await self.scheduler.add_schedule(task, trigger, id=id, **terms)

    async def begin(self) -> None:
        await self.scheduler.start_in_background()

    def outcomes(self) -> Counter[str]:
        return Counter(event.outcome.name for event in self.released)

    async def history(self, job: str = "tick", *, least: int = 1) -> list[RunView]:
        """Oldest first, once there are so many and none is running."""
        found: list[RunView] = []

        async def look() -> bool:
            found[:] = (await self.jobs.history(job))[::-1]
            return len(found) >= least and all(run.outcome != "running" for run in found)

        async with asyncio.timeout(60):
            while not await look():  # noqa: ASYNC110 - the back end tells nobody
                await asyncio.sleep(0.02)
        return found

    async def quiet(self) -> None:
        """No schedule fires any more, and what has been fired is over."""
        for schedule in await self.scheduler.get_schedules():
            await self.scheduler.remove_schedule(schedule.id)
        await until(lambda: not self.scheduler._running_jobs)

    def _note(self, event: Event) -> None:
        assert isinstance(event, JobReleased)
        self.released.append(event)


@asynccontextmanager
async def standing(leases: Callable[[], Leases], count: int = 1) -> AsyncIterator[Sequence[Pod]]:
    """So many pods, whose schedulers can be given schedules and have not begun."""
    async with AsyncExitStack() as stack:
        pods = [Pod(leases()) for _ in range(count)]
        for pod in pods:
            await stack.enter_async_context(pod.leases)
            await stack.enter_async_context(pod.scheduler)
            pod.scheduler.subscribe(pod._note, {JobReleased})
        yield pods
