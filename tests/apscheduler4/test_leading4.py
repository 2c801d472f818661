"""APScheduler 4 where an election was won: run then, stopped and cancelled after, and run again."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from apscheduler import AsyncScheduler, ConflictPolicy, Scheduler
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from stampede_guard.errors import Misuse
from stampede_guard.jobs.apscheduler.leading import leading
from stampede_guard.leases import MemoryLeases
from stampede_guard.leases.election import Election
from stampede_guard.leases.memory import LeaseRows
from tests.support.gate import Gate, until

PATIENCE = 60


class Pod:
    def __init__(self, rows: LeaseRows) -> None:
        self.house = MemoryLeases(rows=rows, namespace="shop")
        self.scheduler = AsyncScheduler()

    async def __aenter__(self) -> Pod:
        await self.scheduler.__aenter__()
        self.election: Election = self.house.election("scheduler", on_elected=leading(self.scheduler))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.election.stop()
        await self.scheduler.__aexit__(None, None, None)
        await self.house.aclose()

    @property
    def running(self) -> bool:
        return self.scheduler.state.name == "started"

    async def lead(self) -> None:
        self.election.start()
        async with asyncio.timeout(PATIENCE):
            await self.election.wait_elected()
        await until(lambda: self.running)


@asynccontextmanager
async def two_pods() -> AsyncIterator[tuple[Pod, Pod]]:
    """No fixture: a scheduler of APScheduler 4 must be left by the task that entered it."""
    rows = LeaseRows()
    async with Pod(rows) as first, Pod(rows) as second:
        yield first, second


async def test_only_the_leader_has_a_scheduler_that_runs() -> None:
    async with two_pods() as (first, second):
        gates = [Gate(), Gate()]
        for gate, pod in zip(gates, (first, second), strict=True):
            await pod.scheduler.configure_task("tick", func=gate.hold)
            await pod.scheduler.add_schedule("tick", IntervalTrigger(seconds=1), id="tick")
        await first.lead()
        await gates[0].arrival()
        second.election.start()
        assert not second.running
        async with asyncio.timeout(PATIENCE):
            await first.election.stop()
        # What the leader ran has ended before the next one leads.
        assert gates[0].cancelled == 1
        assert not first.running
        await gates[1].arrival()


async def test_who_succeeds_a_leader_does_not_run_again_what_that_has_run() -> None:
    async with two_pods() as (first, second):
        ran: list[tuple[str, int]] = []
        now = datetime.now(UTC)

        async def job(what: str, number: int) -> None:
            ran.append((what, number))

        for number, pod in enumerate((first, second)):
            await pod.scheduler.configure_task("job", func=job, max_running_jobs=None)
            for what, trigger in (
                (
                    "cron",
                    CronTrigger(hour="*", minute="*", timezone="UTC", start_time=now - timedelta(minutes=2)),
                ),
                ("interval", IntervalTrigger(hours=1, start_time=now)),
                ("date", DateTrigger(now)),
                ("tick", IntervalTrigger(seconds=1, start_time=now + timedelta(seconds=1))),
            ):
                await pod.scheduler.add_schedule("job", trigger, id=what, args=[what, number])
        await first.lead()
        second.election.start()
        await until(lambda: len(ran) >= 4)
        await first.election.stop()
        await until(lambda: ("tick", 1) in ran)
        once = Counter(what for what, _ in ran if what in ("interval", "date"))
        assert once == {"interval": 1, "date": 1}
        assert next(number for what, number in ran if what == "cron") == 0


async def test_who_succeeds_nobody_runs_what_is_due_and_a_paused_schedule_stays_paused() -> None:
    async with two_pods() as (first, _second):
        ran: list[str] = []
        await first.scheduler.configure_task("job", func=ran.append)
        yesterday = DateTrigger(datetime.now(UTC) - timedelta(days=1))
        await first.scheduler.add_schedule("job", yesterday, id="due", args=["due"])
        await first.scheduler.add_schedule("job", yesterday, id="paused", args=["paused"], paused=True)
        await first.lead()
        await until(lambda: ran == ["due"])


async def test_a_paused_schedule_stays_paused_when_leadership_changes() -> None:
    async with two_pods() as (first, second):
        ran: list[str] = []
        due = datetime.now(UTC)
        await second.scheduler.configure_task("job", func=ran.append, max_running_jobs=None)
        await second.scheduler.add_schedule(
            "job", IntervalTrigger(seconds=1), id="paused", args=["p"], paused=True
        )
        await second.scheduler.add_schedule("job", IntervalTrigger(seconds=1), id="tick", args=["t"])
        await first.lead()
        second.election.start()
        await until(lambda: datetime.now(UTC) > due + timedelta(seconds=1.1))
        await first.election.stop()
        await until(lambda: "t" in ran)
        assert "p" not in ran
        assert (await second.scheduler.get_schedule("paused")).paused


async def test_who_leads_again_runs_again_and_not_what_it_did_not_come_to() -> None:
    async with two_pods() as (first, second):
        gate, now = Gate(), datetime.now(UTC)
        await first.scheduler.configure_task("job", func=gate.hold)
        for name in ("one", "two"):
            # One of them waits in APScheduler's queue until the other has ended.
            await first.scheduler.add_schedule("job", DateTrigger(now), id=name)
        await first.lead()
        await gate.arrival()
        await until(lambda: len(first.scheduler.data_store._jobs_by_id) == 2)  # type: ignore[attr-defined]
        await first.election.stop()
        assert gate.cancelled == gate.entered == 1
        assert await first.scheduler.get_jobs() == []
        await second.lead()
        first.election.start()
        await second.election.stop()
        await until(lambda: first.running)
        await first.scheduler.add_schedule(
            "job", DateTrigger(datetime.now(UTC)), id="three", conflict_policy=ConflictPolicy.replace
        )
        await gate.arrival()
        assert gate.entered == 2


async def test_a_thread_has_ended_before_the_next_one_leads() -> None:
    async with two_pods() as (first, second):
        begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

        def job() -> None:
            begun.set()
            go_on.wait(PATIENCE)
            ended.set()

        await first.scheduler.configure_task("job", func=job, job_executor="threadpool")
        await first.scheduler.add_schedule("job", DateTrigger(datetime.now(UTC)), id="job")
        await first.lead()
        await asyncio.to_thread(begun.wait, PATIENCE)
        second.election.start()
        stopping = asyncio.create_task(first.election.stop())
        await asyncio.wait({stopping}, timeout=0.3)
        assert not second.election.is_leader
        go_on.set()
        async with asyncio.timeout(PATIENCE):
            await second.election.wait_elected()
            assert ended.is_set()
            await stopping


async def test_a_scheduler_that_was_stopped_by_hand_is_told_of(caplog: pytest.LogCaptureFixture) -> None:
    async with two_pods() as (first, _second):
        await first.lead()
        await first.scheduler.stop()
        await until(lambda: "was stopped while it led, not by its election" in caplog.text)


async def test_a_scheduler_that_runs_in_each_worker_cannot_be_led(
    caplog: pytest.LogCaptureFixture,
) -> None:
    house = MemoryLeases(namespace="shop")
    async with house, AsyncScheduler() as scheduler:
        election = house.election("scheduler", on_elected=leading(scheduler))
        await scheduler.start_in_background()
        with pytest.raises(Misuse, match=r"do not call start_in_background\(\)"):
            leading(scheduler)
        # And where it was started after that, nobody leads.
        election.start()
        await until(lambda: "do not call start_in_background()" in caplog.text)
        await election.stop()


def test_the_synchronous_scheduler_cannot_be_led() -> None:
    with pytest.raises(Misuse, match="needs an AsyncScheduler, not a Scheduler"):
        leading(Scheduler())
