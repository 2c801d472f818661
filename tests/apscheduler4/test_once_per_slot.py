"""Several schedulers of APScheduler 4 with the same schedule: each slot runs in one of them."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from apscheduler import Scheduler, current_job
from apscheduler.triggers.combining import OrTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from bench.herd.valkey import ValkeyServer
from stampede_guard.errors import Misuse
from stampede_guard.jobs.apscheduler.apscheduler4 import once_per_slot
from stampede_guard.leases import (
    SKIPPED,
    Jobs,
    Leases,
    MemoryLeases,
    PostgresLeases,
    RedisLeases,
    current_run,
)
from stampede_guard.leases.memory import LeaseRows
from tests.apscheduler4.pods import Pod, in_memory, next_second, standing
from tests.support.gate import Gate, until

PATIENCE = 60
A_DAY = timedelta(days=1)


@pytest.fixture(params=["memory", "valkey", "postgres"])
async def leases(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[Callable[[], Leases]]:
    """What opens the leases of another worker."""
    if request.param == "memory":
        yield in_memory(LeaseRows())
    elif request.param == "valkey":
        url = request.getfixturevalue("valkey_url")
        yield lambda: RedisLeases.from_url(url, namespace=namespace, restart="trust")
    else:
        url = request.getfixturevalue("postgres_url")
        async with PostgresLeases.from_url(url, namespace=namespace) as made:
            await made.create_schema()
        yield lambda: PostgresLeases.from_url(url, namespace=namespace)


class Ticks:
    def __init__(self) -> None:
        self.ran: list[datetime] = []

    async def tick(self) -> str:
        scheduled = current_job.get().original_scheduled_time
        assert scheduled is not None
        self.ran.append(scheduled)
        return "done"

    async def enough(self, count: int) -> None:
        await until(lambda: len(self.ran) >= count)


async def settled(pods: Sequence[Pod], ticks: Ticks) -> list[int]:
    """The slots in seconds, when all is over and each had one outcome."""
    for pod in pods:
        await pod.quiet()
    history = await pods[0].history()
    assert {run.outcome for run in history} == {"completed"}
    assert len(history) == len(ticks.ran)
    assert len({run.slot for run in history}) == len(history)
    assert {name for pod in pods for name in pod.outcomes()} == {"success"}
    return [run.slot // 1000 for run in history]


async def test_four_schedulers_run_each_tick_once(leases: Callable[[], Leases]) -> None:
    ticks, start = Ticks(), next_second()
    async with standing(leases, 4) as pods:
        for pod in pods:
            await pod.schedule(ticks.tick, IntervalTrigger(seconds=1, start_time=start))
            await pod.begin()
        await ticks.enough(4)
        slots = await settled(pods, ticks)
        assert slots == list(range(slots[0], slots[0] + len(slots)))
        assert slots[0] == int(start.timestamp())


async def test_intervals_that_began_in_each_worker_at_another_time_run_once_in_each() -> None:
    ticks, now = Ticks(), datetime.now(UTC)
    async with standing(in_memory(LeaseRows()), 4) as pods:
        for number, pod in enumerate(pods):
            begun = now + timedelta(seconds=0.23 * number)
            await pod.schedule(ticks.tick, IntervalTrigger(seconds=1, start_time=begun))
            await pod.begin()
        await ticks.enough(4)
        slots = await settled(pods, ticks)
        assert slots == list(range(slots[0], slots[0] + len(slots)))


async def test_a_cron_expression_has_whole_seconds_whenever_its_trigger_was_made() -> None:
    ticks = Ticks()
    async with standing(in_memory(LeaseRows()), 4) as pods:
        for pod in pods:
            await pod.schedule(ticks.tick, CronTrigger(second="*", timezone="UTC"))
            await pod.begin()
            await asyncio.sleep(0.07)
        await ticks.enough(4)
        assert any(when.microsecond for when in ticks.ran), "APScheduler has mended what this is about"
        slots = await settled(pods, ticks)
        assert slots == list(range(slots[0], slots[0] + len(slots)))


async def test_jitter_is_no_part_of_the_slot() -> None:
    ticks = Ticks()
    async with standing(in_memory(LeaseRows()), 4) as pods:
        for pod in pods:
            await pod.schedule(ticks.tick, CronTrigger(second="*/2", timezone="UTC"), max_jitter=1.9)
            await pod.begin()
        await ticks.enough(3)
        slots = await settled(pods, ticks)
        assert slots == list(range(slots[0], slots[0] + 2 * len(slots), 2))
        assert slots[0] % 2 == 0


async def test_workers_that_are_late_find_the_slot_taken() -> None:
    """A run of some milliseconds has long ended when the others come: a lock would let them in."""
    ticks, start = Ticks(), datetime.now(UTC) - timedelta(seconds=1)
    async with standing(in_memory(LeaseRows()), 4) as pods:
        for pod in pods:
            await pod.schedule(ticks.tick, IntervalTrigger(days=1, start_time=start))
            await pod.begin()
            await until(lambda pod=pod: pod.released)
        assert len(ticks.ran) == 1
        assert len(await pods[0].history()) == 1


async def test_a_firing_that_is_late_runs_unless_a_misfire_grace_was_given() -> None:
    ticks, yesterday = Ticks(), datetime.now(UTC) - A_DAY
    async with standing(in_memory(LeaseRows())) as (pod,):
        await pod.schedule(ticks.tick, DateTrigger(yesterday), "whenever")
        await pod.schedule(ticks.tick, DateTrigger(yesterday), "ours", slot={"misfire_grace": 3_600})
        await pod.schedule(ticks.tick, DateTrigger(yesterday), "theirs", misfire_grace_time=3_600)
        await pod.begin()
        await until(lambda: len(pod.released) == 3)
        assert len(ticks.ran) == 1
        assert [run.outcome for run in await pod.history("whenever")] == ["completed"]
        (missed,) = await pod.history("ours")
        assert missed.outcome == "missed"
        assert "misfire_grace=3600 s" in missed.error
        # What APScheduler drops itself nobody is told of.
        assert await pod.jobs.history("theirs") == []
        assert pod.outcomes() == {"success": 2, "missed_start_deadline": 1}


async def test_what_passed_while_nobody_was_there_is_coalesced_by_apscheduler() -> None:
    ticks, start = Ticks(), datetime.now(UTC) - timedelta(hours=5, minutes=1)
    async with standing(in_memory(LeaseRows()), 2) as pods:
        for pod in pods:
            await pod.schedule(ticks.tick, IntervalTrigger(hours=1, start_time=start))
            await pod.begin()
        await until(lambda: all(pod.released for pod in pods))
        assert len(ticks.ran) == len(await pods[0].history()) == 1


@pytest.mark.parametrize("kind", ["coroutine", "plain", "returns what can be awaited"])
async def test_a_function_of_any_kind_runs_and_says_what_it_returned(kind: str) -> None:
    threads: list[threading.Thread] = []

    async def coroutine() -> int:
        threads.append(threading.current_thread())
        return 42

    def plain() -> int:
        threads.append(threading.current_thread())
        return 42

    functions: dict[str, Callable[[], Any]] = {
        "coroutine": coroutine,
        "plain": plain,
        "returns what can be awaited": lambda: coroutine(),
    }
    async with standing(in_memory(LeaseRows())) as (pod,):
        await pod.schedule(functions[kind], DateTrigger(datetime.now(UTC)), job_result_expiration_time=60)
        await pod.begin()
        await until(lambda: pod.released)
        result = await pod.scheduler.get_job_result(pod.released[0].job_id)
        assert result is not None and result.return_value == 42
        assert (threads[0] is threading.main_thread()) == (kind != "plain")
        assert [run.outcome for run in await pod.history()] == ["completed"]


async def test_arguments_and_the_run_of_another_worker_are_what_they_are() -> None:
    given: list[Any] = []

    def job(*args: Any, **kwargs: Any) -> str:
        given.append((args, kwargs))
        return "mine"

    when = datetime.now(UTC)
    async with standing(in_memory(LeaseRows()), 2) as pods:
        for pod in pods:
            await pod.schedule(
                job, DateTrigger(when), args=[1], kwargs={"b": 2}, job_result_expiration_time=60
            )
            await pod.begin()
            await until(lambda pod=pod: pod.released)
        results = [await pod.scheduler.get_job_result(pod.released[0].job_id) for pod in pods]
    assert given == [((1,), {"b": 2})]
    assert [result.return_value for result in results if result is not None] == ["mine", SKIPPED]


@pytest.mark.parametrize("plain", [True, False])
async def test_a_function_finds_its_run(plain: bool) -> None:
    found: list[Any] = []

    def look() -> None:
        run = current_run()
        assert run is not None
        found.append((run.job, run.slot, run.key))

    async def coroutine() -> None:
        await asyncio.sleep(0)
        look()

    when = datetime(2026, 6, 1, tzinfo=UTC)
    async with standing(in_memory(LeaseRows())) as (pod,):
        await pod.schedule(look if plain else coroutine, DateTrigger(when))
        await pod.begin()
        await until(lambda: pod.released)
    assert found == [("shop:tick", when, "shop:tick@2026-06-01T00:00:00+00:00")]


async def test_what_a_run_raises_is_raised_and_its_slot_has_failed() -> None:
    def fails() -> None:
        raise PermissionError("401")

    when = datetime.now(UTC)
    async with standing(in_memory(LeaseRows()), 2) as pods:
        for pod in pods:
            await pod.schedule(fails, DateTrigger(when))
            await pod.begin()
            await until(lambda pod=pod: pod.released)
        assert [pod.outcomes() for pod in pods] == [{"error": 1}, {"success": 1}]
        assert pods[0].released[0].exception_message == "401"
        (failed,) = await pods[0].history()
        assert (failed.outcome, failed.error) == ("failed", "PermissionError: 401")


async def test_a_time_limit_ends_a_run() -> None:
    async with standing(in_memory(LeaseRows())) as (pod,):
        await pod.schedule(Gate().hold, DateTrigger(datetime.now(UTC)), slot={"time_limit": 0.05})
        await pod.begin()
        await until(lambda: pod.released)
        assert pod.outcomes() == {"error": 1}
        (failed,) = await pod.history()
        assert failed.error == "TimeoutError: time_limit=0.05 s is over"


async def test_a_run_that_goes_on_elsewhere_makes_the_next_slot_skip() -> None:
    gate, start = Gate(), next_second()
    async with standing(in_memory(LeaseRows()), 2) as pods:
        for pod in pods:
            await pod.schedule(gate.hold, IntervalTrigger(seconds=1, start_time=start))
            await pod.begin()
        # Of the pod that does not run: the slot that it found taken, and the one after it.
        await until(lambda: max(len(pod.released) for pod in pods) >= 2)
        for pod in pods:
            await pod.scheduler.remove_schedule("tick")
        gate.open()
        history = await pods[0].history(least=2)
        assert [run.outcome for run in history] == ["completed", *["skipped"] * (len(history) - 1)]
        assert gate.entered == 1


async def test_nothing_runs_with_the_store_away_and_that_is_an_error() -> None:
    ticks = Ticks()
    with ValkeyServer() as server:
        made = RedisLeases.from_url(server.url, namespace="shop", restart="trust")
        async with standing(lambda: made) as (pod,):
            await pod.schedule(ticks.tick, DateTrigger(datetime.now(UTC)), "before")
            await pod.begin()
            await until(lambda: pod.released)
            server.kill()
            await pod.schedule(ticks.tick, DateTrigger(datetime.now(UTC)), "after")
            await until(lambda: len(pod.released) == 2)
            assert len(ticks.ran) == 1
            assert pod.outcomes() == {"success": 1, "error": 1}
            assert pod.released[1].exception_type.endswith("StoreUnavailable")


async def test_a_scheduler_that_stops_abandons_what_it_runs_and_waits_for_a_coroutines_end() -> None:
    begun, cleaned = asyncio.Event(), []

    async def job() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(3):
                await asyncio.sleep(0.01)
            cleaned.append(1)

    rows = LeaseRows()
    async with standing(in_memory(rows)) as (pod,):
        await pod.schedule(job, DateTrigger(datetime.now(UTC)))
        await pod.begin()
        await begun.wait()
        await pod.scheduler.stop()
        await until(lambda: pod.scheduler.state.name == "stopped")
        assert cleaned == [1]
        (run,) = await pod.history()
        assert (run.outcome, run.error) == ("abandoned", "the worker was stopped")
        assert pod.outcomes() == {"cancelled": 1}


async def test_a_scheduler_that_stops_keeps_others_out_until_its_thread_has_ended() -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def job() -> None:
        begun.set()
        go_on.wait(PATIENCE)
        ended.set()

    when = datetime.now(UTC)
    rows = LeaseRows()
    async with standing(in_memory(rows), 2) as (first, second):
        await first.schedule(job, DateTrigger(when))
        await first.begin()
        await asyncio.to_thread(begun.wait, PATIENCE)
        await first.scheduler.stop()
        await second.schedule(job, DateTrigger(datetime.now(UTC)))
        await second.begin()
        await until(lambda: second.released)
        assert not ended.is_set()
        assert first.scheduler.state.name != "stopped"
        go_on.set()
        await until(lambda: first.scheduler.state.name == "stopped")
        assert ended.is_set()
        history = await second.history(least=2)
        assert Counter(run.outcome for run in history) == {"abandoned": 1, "skipped": 1}


async def test_a_schedule_that_is_removed_while_it_is_due_runs_once_or_not_at_all(
    caplog: pytest.LogCaptureFixture,
) -> None:
    gate, when = Gate(), datetime.now(UTC)
    async with standing(in_memory(LeaseRows())) as (pod,):
        await pod.schedule(gate.hold, IntervalTrigger(seconds=1, start_time=when))
        task = await pod.scheduler.data_store.get_task("task of tick")
        await pod.scheduler.add_schedule(task.id, DateTrigger(when), id="other")
        # One run of a task at a time: the second waits in APScheduler's queue, and loses its schedule there.
        await pod.begin()
        await gate.arrival()
        await pod.scheduler.remove_schedule("tick")
        await pod.scheduler.remove_schedule("other")
        gate.open()
        await until(lambda: len(pod.released) >= 2)
        assert pod.outcomes() == {"success": len(pod.released)}
        assert gate.entered == 1
        assert "its schedule was removed before it began" in caplog.text


async def test_a_schedule_that_is_added_at_run_time_is_known_with_its_rhythm() -> None:
    async with standing(in_memory(LeaseRows())) as (pod,):
        await pod.begin()
        now = datetime.now(UTC)
        await pod.schedule(print, IntervalTrigger(hours=1, start_time=now), "hourly")
        await pod.schedule(print, IntervalTrigger(hours=1, start_time=now), "own", slot={"rhythm": 60})
        await until(lambda: len(pod.released) == 2)
        assert {view.job: view.rhythm for view in await pod.jobs.views()} == {
            "shop:hourly": 3_600,
            "shop:own": 60,
        }


async def error_of(trigger: Any, **terms: Any) -> str:
    async with standing(in_memory(LeaseRows())) as (pod,):
        await pod.schedule(print, trigger, **terms)
        await pod.begin()
        await until(lambda: pod.released)
        assert pod.outcomes() == {"error": 1}
        assert pod.released[0].exception_type.endswith("Misuse")
        return str(pod.released[0].exception_message)


async def test_a_schedule_without_an_id_is_an_error_that_says_what_to_write() -> None:
    assert "add_schedule(..., id='...')" in await error_of(DateTrigger(datetime.now(UTC)), id=None)


async def test_an_executor_without_an_event_loop_is_an_error_and_no_silence() -> None:
    told = await error_of(DateTrigger(datetime.now(UTC)), job_executor="threadpool")
    assert "the executor 'threadpool' has none" in told


async def test_an_interval_within_a_combination_is_an_error() -> None:
    trigger = OrTrigger([IntervalTrigger(hours=1), CronTrigger(hour=3)])
    assert "write two schedules" in await error_of(trigger)


async def test_an_id_that_a_job_of_our_own_has_is_an_error() -> None:
    async with standing(in_memory(LeaseRows())) as (pod,):

        @pod.jobs.every(300)
        async def tick() -> None: ...

        await pod.schedule(tick, DateTrigger(datetime.now(UTC)))
        await pod.begin()
        await until(lambda: pod.released)
        assert "two jobs have the name 'tick'" in str(pod.released[0].exception_message)


def test_the_synchronous_scheduler_is_an_error_and_no_silence(caplog: pytest.LogCaptureFixture) -> None:
    once = once_per_slot(Jobs(MemoryLeases(namespace="shop")))(print)
    with Scheduler() as scheduler:
        scheduler.configure_task("tick", func=once)
        scheduler.add_schedule("tick", DateTrigger(datetime.now(UTC)), id="tick")
        scheduler.start_in_background()
        for _ in range(PATIENCE * 50):
            if "use AsyncScheduler" in caplog.text:
                return
            threading.Event().wait(0.02)
    raise AssertionError("nothing was told")


async def test_it_cannot_be_called_by_hand_nor_be_a_job_without_a_schedule() -> None:
    once = once_per_slot(Jobs(MemoryLeases(namespace="shop")))(print)
    with pytest.raises(Misuse, match="add_schedule"):
        await once()
    async with standing(in_memory(LeaseRows())) as (pod,):
        await pod.scheduler.configure_task("tick", func=once)
        await pod.scheduler.add_job("tick")
        await pod.begin()
        await until(lambda: pod.released)
        assert pod.released[0].exception_type.endswith("Misuse")


@pytest.mark.parametrize("terms", [{"retry_abandoned": True}, {"coalesce": False}, {"overlaps": "skip"}])
def test_terms_that_would_have_no_effect_are_refused(terms: dict[str, Any]) -> None:
    with pytest.raises(Misuse):
        once_per_slot(Jobs(MemoryLeases()), **terms)
