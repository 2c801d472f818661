"""APScheduler 3 on several workers: each firing runs in one of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, EVENT_JOB_MISSED
from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.schedulers.background import BackgroundScheduler

from stampede_guard.errors import Misuse
from stampede_guard.jobs import Jobs
from stampede_guard.jobs.apscheduler.apscheduler3 import SlotExecutor
from stampede_guard.jobs.apscheduler.apscheduler4 import once_per_slot
from stampede_guard.leases import MemoryLeases
from stampede_guard.leases.memory import LeaseRows

PATIENCE = 60


class Firings:
    def __init__(self) -> None:
        self.runs: list[str] = []
        self.enough = asyncio.Event()
        self.wanted = 1

    def note(self, what: str) -> None:
        self.runs.append(what)
        if len(self.runs) >= self.wanted:
            self.enough.set()


def a_worker(rows: LeaseRows, **terms: Any) -> tuple[AsyncIOScheduler, Jobs]:
    jobs = Jobs(MemoryLeases(rows=rows, namespace="shop"))
    return AsyncIOScheduler(executors={"default": SlotExecutor(jobs, **terms)}, timezone=UTC), jobs


async def drained(scheduler: AsyncIOScheduler) -> None:
    while pending := set(scheduler._executors["default"]._pending):
        await asyncio.wait(pending)


async def test_four_workers_run_each_tick_once() -> None:
    rows, firings, told = LeaseRows(), Firings(), Counter[int]()
    firings.wanted = 3
    workers = [a_worker(rows) for _ in range(4)]

    async def tick() -> str:
        firings.note("tick")
        return "done"

    for scheduler, _ in workers:
        scheduler.add_listener(lambda event: told.update([event.code]), EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
        scheduler.add_job(tick, "cron", second="*", id="tick")
        scheduler.start()
    async with asyncio.timeout(PATIENCE):
        await firings.enough.wait()
    for scheduler, _ in workers:
        scheduler.pause()
    for scheduler, _ in workers:
        await drained(scheduler)
        scheduler.shutdown()
    _, jobs = workers[0]
    history = await jobs.history("tick")
    slots = [run.slot for run in history]
    assert len(slots) == len(set(slots))
    # On a busy machine, a tick may find the run of the one before it, and is skipped.
    outcomes = Counter(run.outcome for run in history)
    assert outcomes.keys() <= {"completed", "skipped"}
    assert len(firings.runs) == outcomes["completed"] >= 3
    assert told[EVENT_JOB_EXECUTED] == len(firings.runs)
    assert history[0].slot % 1_000 == 0


async def test_intervals_that_began_at_different_times_run_once_per_interval() -> None:
    rows, firings = LeaseRows(), Firings()
    workers = [a_worker(rows) for _ in range(3)]
    now = datetime.now(UTC)
    hour = now.replace(minute=0, second=0, microsecond=0)

    async def tick() -> None:
        firings.note("tick")

    done = Counter[int]()
    ended = asyncio.Event()

    def count(event: Any) -> None:
        done[event.code] += 1
        ended.set()

    for number, (scheduler, _) in enumerate(workers):
        scheduler.add_listener(count, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR | EVENT_JOB_MISSED)
        # Each at another moment of the same hour.
        # No firing counts as missed, however late a busy machine looks at it.
        scheduler.add_job(
            tick,
            "interval",
            hours=1,
            id="tick",
            next_run_time=now,
            max_instances=2,
            misfire_grace_time=None,
        )
        scheduler.start()
        assert number < 3
    async with asyncio.timeout(PATIENCE):
        await ended.wait()
        await firings.enough.wait()
    for scheduler, _ in workers:
        await drained(scheduler)
        scheduler.shutdown()
    (run,) = await workers[0][1].history("tick")
    if datetime.now(UTC) < hour + timedelta(hours=1):
        assert run.slot == int(hour.timestamp() * 1000)
    assert len(firings.runs) == 1


async def test_errors_and_results_are_told_to_listeners_as_before() -> None:
    scheduler, jobs = a_worker(LeaseRows())
    events: dict[str, Any] = {}
    both = asyncio.Event()

    def listen(event: Any) -> None:
        events[event.job_id] = event
        if len(events) == 2:
            both.set()

    def fails() -> None:
        raise PermissionError("401")

    scheduler.add_listener(listen, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
    scheduler.add_job(fails, "date", id="fails")
    scheduler.add_job(lambda: 42, "date", id="works")
    scheduler.start()
    async with asyncio.timeout(PATIENCE):
        await both.wait()
    scheduler.shutdown()
    assert isinstance(events["fails"].exception, PermissionError)
    assert events["works"].retval == 42
    (failed,) = await jobs.history("fails")
    assert failed.error == "PermissionError: 401"


async def test_a_firing_later_than_the_jobs_own_misfire_grace_is_missed_and_none_means_never() -> None:
    scheduler, jobs = a_worker(LeaseRows())
    events: dict[str, int] = {}
    both = asyncio.Event()

    def listen(event: Any) -> None:
        events[event.job_id] = event.code
        if len(events) == 2:
            both.set()

    scheduler.add_listener(listen, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR | EVENT_JOB_MISSED)
    yesterday = datetime.now(UTC) - timedelta(days=1)
    scheduler.add_job(lambda: 1, "date", run_date=yesterday, id="late", misfire_grace_time=3_600)
    scheduler.add_job(lambda: 1, "date", run_date=yesterday, id="whenever", misfire_grace_time=None)
    scheduler.start()
    async with asyncio.timeout(PATIENCE):
        await both.wait()
    scheduler.shutdown()
    assert events == {"late": EVENT_JOB_MISSED, "whenever": EVENT_JOB_EXECUTED}
    (missed,) = await jobs.history("late")
    assert missed.outcome == "missed"
    assert "misfire_grace=3600 s" in missed.error


async def test_a_job_without_an_id_is_an_error_that_says_what_to_write(
    caplog: pytest.LogCaptureFixture,
) -> None:
    scheduler, _ = a_worker(LeaseRows())
    scheduler.add_job(print, "date", name="report")
    scheduler.start()
    executor = scheduler._executors["default"]
    async with asyncio.timeout(PATIENCE):
        while not any(
            "add_job(..., id='report')" in (record.exc_text or str(record.exc_info))
            for record in caplog.records
        ):
            await asyncio.sleep(0)
            if executor._pending:
                await asyncio.wait(set(executor._pending))
    scheduler.shutdown()


def test_only_a_scheduler_with_an_event_loop_can_have_the_executor() -> None:
    scheduler = BackgroundScheduler(executors={"default": SlotExecutor(Jobs(MemoryLeases()))})
    with pytest.raises(Misuse, match="for AsyncIOScheduler; this is a BackgroundScheduler"):
        scheduler.start()


def test_what_is_for_version_4_says_what_version_3_has() -> None:
    with pytest.raises(Misuse, match="version 3 has SlotExecutor"):
        once_per_slot(Jobs(MemoryLeases()))
