"""What is told of runs while they happen: lines in the log, events for hooks."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from stampede_guard import events
from stampede_guard.events import Event
from stampede_guard.jobs import Jobs, Run
from stampede_guard.jobs.schedules.schedule import moment
from stampede_guard.leases import MemoryLeases
from tests.jobs.fleet import EPOCH, Fleet, virtually


def told_of(function: Any, **terms: Any) -> tuple[list[Event], Any]:
    """The events of one run by hand of the job `sync#7` in `shop`, and the run in its history."""

    async def main() -> tuple[list[Event], Any]:
        heard: list[Event] = []
        async with MemoryLeases(namespace="shop", hooks=(heard.append,)) as leases:
            jobs = Jobs(leases)
            jobs.every(3_600, name="sync#7", **terms)(function)
            await jobs.run_now("sync#7")
            (run,) = await jobs.history("sync#7")
        return [event for event in heard if isinstance(event, events.JobStarted | events.JobEnded)], run

    return asyncio.run(main())


def test_a_run_is_an_event_when_it_begins_and_one_when_it_ends() -> None:
    async def sync() -> None:
        await asyncio.sleep(0.01)

    (started, ended), run = told_of(sync)
    # What may be a label of a metric has neither namespace nor row.
    assert started == events.JobStarted("sync", "shop:sync#7", run.slot, run.run, 1)
    assert isinstance(ended, events.JobEnded)
    assert 0.0 < ended.seconds < 60
    assert ended == events.JobEnded("sync", "shop:sync#7", run.slot, "completed", ended.seconds, 1, "")


def test_of_a_failure_the_event_has_the_kind_alone() -> None:
    async def sync() -> None:
        raise PermissionError("somebody's private data")

    (_, ended), run = told_of(sync)
    assert isinstance(ended, events.JobEnded)
    assert (ended.outcome, ended.error) == ("failed", "PermissionError")
    assert run.error == "PermissionError: somebody's private data"


def test_what_is_no_failure_is_told_as_such(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stampede_guard.jobs")

    async def scenario(fleet: Fleet) -> None:
        heard: list[Event] = []
        worker = fleet.worker().tick(10, takes=15.0).start()
        worker.leases._hooks.add(heard.append)
        await fleet.until(31)
        ends = [event for event in heard if isinstance(event, events.JobEnded)]
        assert [(event.outcome, event.error) for event in ends] == [("skipped", ""), ("completed", "")]
        assert 14 < ends[1].seconds < 16

    virtually(scenario)
    when = moment(int((EPOCH + 10) * 1000)).isoformat()
    lines = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert (logging.INFO, f"job shop:tick, slot {when}: w0 runs it") in lines
    assert any(
        level == logging.INFO and text.startswith(f"job shop:tick, slot {when}: completed after 1")
        for level, text in lines
    )
    assert not [text for level, text in lines if level >= logging.ERROR]


def test_another_attempt_and_a_failure_are_told_as_such(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "stampede_guard.jobs")

    async def scenario(fleet: Fleet) -> None:
        doomed = fleet.worker().tick(100, takes=1e9, lease_ttl=6, retry_abandoned=True).start()
        await fleet.until(100.5)
        doomed.kill()
        other = fleet.worker()

        @other.jobs.every(100, lease_ttl=6, retry_abandoned=True)
        async def tick(run: Run) -> None:
            raise ValueError(f"attempt {run.attempt}")

        other.start()
        await fleet.until(140)

    virtually(scenario)
    lines = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert any(text.endswith(" runs it (attempt 2)") for _, text in lines)
    assert any(
        level == logging.ERROR and text.endswith(": ValueError: attempt 2") and "failed after 0.0 s" in text
        for level, text in lines
    )


def test_an_overdue_job_is_told_once_when_it_begins_to_be_and_once_when_it_ends() -> None:
    async def scenario(fleet: Fleet) -> None:
        heard: list[Event] = []
        worker, works = fleet.worker(), False

        @worker.jobs.every(100, lease_ttl=20)
        async def tick() -> None:
            if not works:
                raise ValueError("no")

        worker.leases._hooks.add(heard.append)
        worker.start()
        await fleet.until(199)
        late = (events.JobOverdue, events.JobOnTime)
        (first,) = [event for event in heard if isinstance(event, late)]
        assert first == events.JobOnTime("tick", "shop:tick"), "the first look tells in any case"
        heard.clear()
        await fleet.until(350)
        (overdue,) = [event for event in heard if isinstance(event, late)]
        assert isinstance(overdue, events.JobOverdue) and (overdue.function, overdue.entry) == (
            "tick",
            "shop:tick",
        )
        assert 200 < overdue.since < 225
        works = True
        await fleet.until(450)
        assert [type(event) for event in heard if isinstance(event, late)] == list(late)
        works = False
        await fleet.until(700)
        await worker.stop()
        told = [type(event) for event in heard if isinstance(event, late)]
        assert told == [*late, *late], "a worker that stops sees nothing overdue"

    virtually(scenario)
