"""What a `SlotExecutor` does where APScheduler 3 would do otherwise, and where two of anything meet."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from apscheduler.events import (
    EVENT_JOB_ERROR,
    EVENT_JOB_EXECUTED,
    EVENT_JOB_MAX_INSTANCES,
    EVENT_JOB_MISSED,
)
from apscheduler.jobstores.memory import MemoryJobStore
from apscheduler.schedulers.asyncio import AsyncIOScheduler

from stampede_guard.errors import Misuse, PolicyError, StoreUnavailable
from stampede_guard.jobs import Jobs, current_run
from stampede_guard.jobs.apscheduler.apscheduler3 import SlotExecutor
from stampede_guard.jobs.messages import RunView
from stampede_guard.leases import SKIPPED, MemoryLeases
from stampede_guard.leases.memory import LeaseRows
from tests.support.gate import Gate, until

PATIENCE = 60
TOLD = EVENT_JOB_EXECUTED | EVENT_JOB_ERROR | EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES


class Worker:
    def __init__(self, rows: LeaseRows | None = None, stores: int = 1, **terms: Any) -> None:
        self.jobs = Jobs(MemoryLeases(rows=rows or LeaseRows(), namespace="shop"))
        self.executor = SlotExecutor(self.jobs, **terms)
        names = ["default", "other"][:stores]
        self.scheduler = AsyncIOScheduler(
            executors={"default": self.executor},
            jobstores={name: MemoryJobStore() for name in names},
            timezone=UTC,
        )
        self.events: list[Any] = []
        self.scheduler.add_listener(self.events.append, TOLD)

    def start(self) -> Worker:
        self.scheduler.start()
        return self

    def job(
        self, function: Callable[..., Any], trigger: str = "date", id: str = "tick", **terms: Any
    ) -> None:
        self.scheduler.add_job(function, trigger, id=id, **{"misfire_grace_time": None, **terms})

    async def told(self, code: int) -> Any:
        await until(lambda: code in [event.code for event in self.events])
        return next(event for event in self.events if event.code == code)

    async def outcomes(self, job: str = "tick", *, least: int = 1) -> list[RunView]:
        """Oldest first, once there are so many and none is running."""
        async with asyncio.timeout(PATIENCE):
            while True:
                found = await self.jobs.history(job)
                if len(found) >= least and all(run.outcome != "running" for run in found):
                    return found[::-1]
                await asyncio.sleep(0.001)

    async def stop(self) -> None:
        self.scheduler.shutdown()
        await until(lambda: not self.scheduler.running and not self.executor._pending)
        await self.jobs.leases.aclose()


async def test_firings_with_jitter_run_once_per_tick() -> None:
    rows, ran = LeaseRows(), Counter[str]()
    workers = [Worker(rows) for _ in range(4)]
    enough = asyncio.Event()

    async def tick() -> None:
        ran["tick"] += 1
        if ran["tick"] >= 3:
            enough.set()

    for worker in workers:
        worker.job(tick, "cron", second="*", jitter=0.4)
        worker.start()
    async with asyncio.timeout(PATIENCE):
        await enough.wait()
    for worker in workers:
        worker.scheduler.pause()
    history = await workers[0].outcomes(least=3)
    for worker in workers:
        await worker.stop()
    assert all(run.slot % 1_000 == 0 for run in history)
    assert len({run.slot for run in history}) == len(history)
    assert ran["tick"] <= len(history)


async def test_what_a_callable_returns_is_awaited_if_it_can_be() -> None:
    ran = asyncio.Event()

    class Task:
        async def __call__(self) -> int:
            ran.set()
            return 42

    worker = Worker().start()
    worker.job(Task())
    assert (await worker.told(EVENT_JOB_EXECUTED)).retval == 42
    assert ran.is_set()
    await worker.stop()


async def test_a_tick_that_comes_while_this_workers_own_run_goes_on_is_skipped_and_written_down() -> None:
    go_on, count = asyncio.Event(), Counter[str]()

    async def tick() -> None:
        count["tick"] += 1
        await go_on.wait()

    worker = Worker().start()
    worker.job(tick, "interval", seconds=1, next_run_time=datetime.now(UTC))
    await worker.told(EVENT_JOB_MAX_INSTANCES)
    worker.scheduler.pause()
    go_on.set()
    history = await worker.outcomes(least=2)
    assert [run.outcome for run in history] == ["completed", *["skipped"] * (len(history) - 1)]
    assert history[1].error == "an earlier run still goes on in this worker"
    assert count["tick"] == 1
    await worker.stop()


async def test_with_overlap_given_a_worker_waits_for_its_own_run_as_for_any_other() -> None:
    go_on, begun = asyncio.Event(), asyncio.Queue[int]()

    async def tick() -> None:
        begun.put_nowait(1)
        await go_on.wait()

    worker = Worker(overlap="queue").start()
    worker.job(tick, "interval", seconds=1, next_run_time=datetime.now(UTC))
    async with asyncio.timeout(PATIENCE):
        await begun.get()
        await until(lambda: len(worker.executor._pending) >= 2)
        worker.scheduler.pause()
        go_on.set()
        await begun.get()
    history = await worker.outcomes(least=2)
    assert {run.outcome for run in history} == {"completed"}
    await worker.stop()


async def test_with_overlap_replace_a_workers_own_run_gives_way() -> None:
    begun, ended = asyncio.Queue[int](), asyncio.Event()

    async def tick() -> None:
        begun.put_nowait(1)
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    worker = Worker(overlap="replace", lease_ttl=2).start()
    worker.job(tick, "interval", seconds=1, next_run_time=datetime.now(UTC))
    async with asyncio.timeout(PATIENCE):
        await begun.get()
        await ended.wait()
        await begun.get()
    worker.scheduler.pause()
    await worker.stop()
    first = (await worker.jobs.history("tick"))[-1]
    assert first.outcome == "failed"


async def test_a_run_that_is_cancelled_is_told_as_an_error_and_its_slot_is_abandoned() -> None:
    begun = asyncio.Event()

    async def tick() -> None:
        begun.set()
        await asyncio.Event().wait()

    worker = Worker().start()
    worker.job(tick)
    async with asyncio.timeout(PATIENCE):
        await begun.wait()
    worker.scheduler.shutdown()
    event = await worker.told(EVENT_JOB_ERROR)
    assert isinstance(event.exception, asyncio.CancelledError)
    (run,) = await worker.outcomes()
    assert (run.outcome, run.error) == ("abandoned", "the worker was stopped")
    await worker.jobs.leases.aclose()


async def test_a_plain_function_finds_its_run_and_sees_that_it_is_to_stop() -> None:
    found: list[Any] = []

    def job() -> str:
        run = current_run()
        assert run is not None
        found.append((run.job, run.slot, run.token > 0))
        run.report(files=12)
        return "stopped" if run.stopping.wait(PATIENCE) else "not stopped"

    worker, when = Worker(time_limit=0.1).start(), datetime(2026, 6, 1, tzinfo=UTC)
    worker.job(job, run_date=when)
    await worker.told(EVENT_JOB_ERROR)
    assert found == [("shop:tick", when, True)]
    (run,) = await worker.outcomes()
    assert (run.outcome, run.counters) == ("failed", {"files": 12})
    assert current_run() is None
    await worker.stop()


async def test_closing_the_leases_first_waits_for_what_is_run() -> None:
    gate, rows = Gate(), LeaseRows()
    worker = Worker(rows).start()
    worker.job(gate.hold)
    await gate.arrival()
    closing = asyncio.create_task(worker.jobs.leases.aclose())
    await asyncio.sleep(0.05)
    assert not closing.done()
    gate.open()
    async with asyncio.timeout(PATIENCE):
        await closing
    other = Jobs(MemoryLeases(rows=rows, namespace="shop"))
    assert [run.outcome for run in await other.history("tick")] == ["completed"]
    await worker.stop()


async def test_a_stop_of_the_worker_that_has_no_patience_abandons_what_is_run() -> None:
    gate, rows = Gate(), LeaseRows()
    worker = Worker(rows).start()
    worker.job(gate.hold)
    await gate.arrival()
    async with asyncio.timeout(PATIENCE):
        await worker.jobs.stop(drain_timeout=0)
    assert gate.cancelled == 1
    await worker.told(EVENT_JOB_MISSED)
    assert [run.outcome for run in await worker.outcomes()] == ["abandoned"]
    await worker.stop()


async def test_an_errors_event_has_its_traceback_as_always() -> None:
    def fails() -> None:
        raise PermissionError("401")

    worker = Worker().start()
    worker.job(fails)
    assert "in fails" in (await worker.told(EVENT_JOB_ERROR)).traceback
    await worker.stop()


async def test_a_job_may_remove_itself_while_it_is_due() -> None:
    worker = Worker().start()

    async def tick() -> None:
        worker.scheduler.remove_job("tick")

    worker.job(tick, "interval", hours=1, next_run_time=datetime.now(UTC))
    await worker.told(EVENT_JOB_EXECUTED)
    assert [run.outcome for run in await worker.outcomes()] == ["completed"]
    await worker.stop()


async def test_a_job_is_known_before_it_ever_fires() -> None:
    worker = Worker()
    worker.job(print, "cron", hour=3)
    worker.start()
    worker.job(print, "cron", hour=4, id="added at run time")
    await until(lambda: len(worker.executor._slots._registered) == 2)
    assert {view.job: view.rhythm for view in await worker.jobs.views()} == {
        "shop:tick": 86_400,
        "shop:added at run time": 86_400,
    }
    await worker.stop()


async def test_nothing_runs_with_the_back_end_away_and_that_is_told(caplog: pytest.LogCaptureFixture) -> None:
    class Away:
        async def register(self, *_: Any, **__: Any) -> Any:
            raise StoreUnavailable("nobody is there")

    ran: list[int] = []
    worker = Worker()
    worker.jobs._open_runs = Away  # type: ignore[assignment]
    worker.start()
    worker.job(lambda: ran.append(1))
    await worker.told(EVENT_JOB_MISSED)
    assert not ran
    assert "no run starts because the back end is away: nobody is there" in caplog.text
    worker.jobs._open_runs = None
    await worker.stop()


@pytest.mark.parametrize(
    ("terms", "error", "told"),
    [
        ({"retry_abandoned": True}, Misuse, "runs at most once"),
        ({"coalesce": False}, Misuse, "add_job"),
        ({"overlaps": "skip"}, Misuse, "a job has no overlaps"),
        ({"overlap": "sometimes"}, PolicyError, "overlap"),
    ],
)
def test_terms_that_would_have_no_effect_are_refused(
    terms: dict[str, Any], error: type[Exception], told: str
) -> None:
    with pytest.raises(error, match=told):
        SlotExecutor(Jobs(MemoryLeases()), **terms)


async def refused(worker: Worker, caplog: pytest.LogCaptureFixture, told: str) -> None:
    await until(lambda: told in caplog.text)
    await worker.stop()


async def test_one_id_in_two_job_stores_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    ran: list[int] = []
    worker = Worker(stores=2).start()
    for store in ("default", "other"):
        worker.job(lambda: ran.append(1), "cron", hour=3, jobstore=store)
    await refused(worker, caplog, "in the job stores 'other' and 'default'")
    job = worker.scheduler.get_job("tick", "other")
    assert job is None or not ran


async def test_an_id_that_a_job_of_our_own_has_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker()

    @worker.jobs.every(300)
    async def tick() -> None: ...

    worker.start()
    worker.job(tick)
    await refused(worker, caplog, "two jobs have the name 'tick'")


async def test_a_missing_id_is_told_when_the_job_is_added(caplog: pytest.LogCaptureFixture) -> None:
    worker = Worker().start()
    worker.scheduler.add_job(print, "cron", hour=3, name="report")
    await refused(worker, caplog, "the job report will not run: the job 'report' has no id of its own")


async def test_a_firing_whose_function_was_skipped_is_skipped() -> None:
    worker = Worker().start()
    worker.job(lambda: SKIPPED)
    assert (await worker.told(EVENT_JOB_MISSED)).job_id == "tick"
    assert [(run.outcome, "SKIPPED" in run.error) for run in await worker.outcomes()] == [("skipped", True)]
    await worker.stop()
