"""APScheduler 3 where an election was won: paused before, resumed then, paused and cancelled after."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from apscheduler.jobstores.base import BaseJobStore
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler

from stampede_guard.errors import Misuse
from stampede_guard.jobs import Jobs
from stampede_guard.jobs.apscheduler import leading as module
from stampede_guard.jobs.apscheduler.apscheduler3 import SlotExecutor
from stampede_guard.jobs.apscheduler.leading import leading
from stampede_guard.leases import MemoryLeases
from stampede_guard.leases.memory import LeaseRows
from tests.support.gate import until

PATIENCE = 60
AN_HOUR = timedelta(hours=1)


class FileStore(BaseJobStore):  # type: ignore[misc]
    """One job that outlives its process."""

    job: Any = None

    def lookup_job(self, job_id: str) -> Any:
        return self.job if self.job is not None and self.job.id == job_id else None

    def get_due_jobs(self, now: datetime) -> list[Any]:
        return []

    def get_next_run_time(self) -> None:
        return None

    def get_all_jobs(self) -> list[Any]:
        return [self.job]

    def add_job(self, job: Any) -> None:
        self.job = job

    update_job = add_job

    def remove_job(self, job_id: str) -> None:
        self.job = None

    def remove_all_jobs(self) -> None:
        self.job = None


class Pod:
    def __init__(self, rows: LeaseRows, scheduler: Any) -> None:
        self.client = MemoryLeases(rows=rows, namespace="shop")
        self.scheduler = scheduler
        self.election = self.client.election("scheduler", on_elected=leading(scheduler))

    async def close(self) -> None:
        await self.election.stop()
        if self.scheduler.running:
            self.scheduler.shutdown(wait=False)
        await self.client.aclose()


@pytest.fixture
async def pods() -> AsyncIterator[list[Pod]]:
    """Two, with a scheduler each that was started and is paused."""
    rows = LeaseRows()
    made = [Pod(rows, AsyncIOScheduler(timezone=UTC)) for _ in "ab"]
    for pod in made:
        pod.scheduler.start(paused=True)
    yield made
    for pod in made:
        await pod.close()


async def test_only_the_leader_has_a_scheduler_that_runs(pods: list[Pod]) -> None:
    started = {0: asyncio.Event(), 1: asyncio.Event()}
    stopped = asyncio.Event()

    async def job(number: int) -> None:
        started[number].set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    for number, pod in enumerate(pods):
        pod.scheduler.add_job(job, "interval", seconds=1, args=[number])
    first, second = pods
    async with asyncio.timeout(PATIENCE):
        first.election.start()
        await started[0].wait()
        second.election.start()
        assert not started[1].is_set()
        await first.election.stop()
        # What the leader ran has ended before the next one leads.
        assert stopped.is_set()
        await started[1].wait()


async def test_who_succeeds_a_leader_does_not_run_again_what_that_has_run(pods: list[Pod]) -> None:
    ran: list[tuple[str, int]] = []
    ticked = asyncio.Event()

    async def job(what: str, number: int) -> None:
        ran.append((what, number))
        if what == "tick" and number:
            ticked.set()

    now = datetime.now(UTC)
    for number, pod in enumerate(pods):
        for trigger in ("cron", "interval", "date"):
            terms: dict[str, Any] = {"hour": now.hour} if trigger == "cron" else {}
            if trigger == "interval":
                terms = {"hours": 1}
            pod.scheduler.add_job(
                job, trigger, **terms, args=[trigger, number], misfire_grace_time=None, next_run_time=now
            )
        pod.scheduler.add_job(job, "interval", seconds=1, args=["tick", number], misfire_grace_time=None)
    first, second = pods
    async with asyncio.timeout(PATIENCE):
        first.election.start()
        await first.election.wait_elected()
        second.election.start()
        await until(lambda: len(ran) >= 3)
        await first.election.stop()
        await ticked.wait()
    assert Counter(what for what, _ in ran if what != "tick") == {"cron": 1, "interval": 1, "date": 1}
    left = {str(job.trigger).partition("[")[0]: job for job in second.scheduler.get_jobs()}
    assert "date" not in left
    assert left["cron"].next_run_time > now


async def test_who_succeeds_nobody_runs_what_is_due(pods: list[Pod]) -> None:
    ran = asyncio.Event()

    async def job() -> None:
        ran.set()

    pods[0].scheduler.add_job(job, "date", run_date=datetime.now(UTC) - AN_HOUR, misfire_grace_time=None)
    pods[0].election.start()
    async with asyncio.timeout(PATIENCE):
        await ran.wait()


async def test_a_job_store_that_is_shared_knows_itself_what_was_run(pods: list[Pod]) -> None:
    pod, due = pods[0], datetime.now(UTC) - AN_HOUR
    for name, store in (("mine", MemoryJobStore()), ("theirs", FileStore())):
        pod.scheduler.add_jobstore(store, name)
        pod.scheduler.add_job(print, "interval", hours=3, jobstore=name, id=name, next_run_time=due)
    module._pass_over(pod.scheduler)
    assert pod.scheduler.get_job("mine").next_run_time > due
    assert pod.scheduler.get_job("theirs").next_run_time == due


async def test_a_thread_has_ended_before_the_next_one_leads(pods: list[Pod]) -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        go_on.wait(PATIENCE)
        ended.set()

    first, second = pods
    first.scheduler.add_job(job, "date")
    async with asyncio.timeout(PATIENCE):
        first.election.start()
        await asyncio.to_thread(begun.wait, PATIENCE)
        second.election.start()
        stopping = asyncio.create_task(first.election.stop())
        await asyncio.wait({stopping}, timeout=0.3)
        assert not second.election.is_leader
        go_on.set()
        await second.election.wait_elected()
        assert ended.is_set()
        await stopping


async def test_of_firings_that_are_not_coalesced_none_begins_after_leadership_has_ended(
    pods: list[Pod],
) -> None:
    begun: list[int] = []

    async def job() -> None:
        begun.append(1)
        await asyncio.Event().wait()

    first, _ = pods
    first.scheduler.add_job(
        job, "interval", hours=1, coalesce=False, misfire_grace_time=None,
        next_run_time=datetime.now(UTC) - 5 * AN_HOUR,
    )  # fmt: skip
    async with asyncio.timeout(PATIENCE):
        first.election.start()
        await until(lambda: begun)
        await first.election.stop()
    assert begun == [1]


async def nobody_leads_before(
    prepare: Callable[[Any], object],
    *,
    begun: threading.Event,
    go_on: threading.Event,
    ended: threading.Event,
) -> None:
    """The first leads until `begun`, and is stopped; the second leads after what `go_on` sets free has `ended`."""
    rows = LeaseRows()
    first, second = (Pod(rows, BackgroundScheduler(timezone=UTC)) for _ in "ab")
    for pod in (first, second):
        pod.scheduler.start(paused=True)
    prepare(first.scheduler)
    async with asyncio.timeout(PATIENCE):
        first.election.start()
        await asyncio.to_thread(begun.wait, PATIENCE)
        second.election.start()
        stopping = asyncio.create_task(first.election.stop())
        await asyncio.wait({stopping}, timeout=0.3)
        assert not second.election.is_leader
        go_on.set()
        await second.election.wait_elected()
        assert ended.is_set()
        await stopping
    for pod in (first, second):
        await pod.close()


async def test_a_pools_thread_has_ended_before_the_next_one_leads() -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        go_on.wait(PATIENCE)
        ended.set()

    await nobody_leads_before(
        lambda scheduler: scheduler.add_job(job, "date"), begun=begun, go_on=go_on, ended=ended
    )


async def test_what_a_schedulers_own_thread_is_about_to_begin_has_ended_before_the_next_one_leads() -> None:
    looking, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    class Slow(FileStore):
        def get_due_jobs(self, now: datetime) -> list[Any]:
            looking.set()
            go_on.wait(PATIENCE)
            return [self.job] if self.job is not None and not ended.is_set() else []

    def prepare(scheduler: Any) -> None:
        scheduler.add_jobstore(Slow(), "slow")
        scheduler.add_job(ended.set, "date", jobstore="slow")

    await nobody_leads_before(prepare, begun=looking, go_on=go_on, ended=ended)


async def test_a_leader_who_leads_again_runs_what_was_cancelled_before_it_began() -> None:
    """With slots as well: a run that never began does not count as one that goes on."""
    ran = asyncio.Event()

    async def job() -> None:
        ran.set()

    executor = SlotExecutor(Jobs(MemoryLeases(namespace="shop")))
    pod = Pod(LeaseRows(), AsyncIOScheduler(executors={"default": executor}, timezone=UTC))
    pod.scheduler.start(paused=True)
    pod.scheduler.add_job(job, "interval", seconds=1, id="tick")
    executor.submit_job(pod.scheduler.get_job("tick"), [datetime.now(UTC)])
    for task in set(executor._pending):
        task.cancel()
    async with asyncio.timeout(PATIENCE):
        pod.election.start()
        await ran.wait()
    await pod.close()


async def test_a_scheduler_that_was_shut_down_first_is_no_failure(
    pods: list[Pod], caplog: pytest.LogCaptureFixture
) -> None:
    pod = pods[0]
    async with asyncio.timeout(PATIENCE):
        pod.election.start()
        await pod.election.wait_elected()
        pod.scheduler.shutdown()
        await until(lambda: not pod.scheduler.running)
        await pod.election.stop()
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_a_scheduler_that_was_not_started_is_an_error_that_says_what_to_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pod = Pod(LeaseRows(), AsyncIOScheduler(timezone=UTC))
    pod.election.start()
    async with asyncio.timeout(PATIENCE):
        await until(lambda: "start(paused=True)" in caplog.text)
    await pod.close()


async def test_a_scheduler_that_ran_before_it_was_elected_is_told_of(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pod = Pod(LeaseRows(), AsyncIOScheduler(timezone=UTC))
    pod.scheduler.start()
    pod.election.start()
    async with asyncio.timeout(PATIENCE):
        await until(lambda: "ran before it was elected" in caplog.text)
    await pod.close()


def test_what_cannot_pause_cannot_be_led() -> None:
    with pytest.raises(Misuse, match="can pause and resume, not a object"):
        leading(object())
