"""A paused job: nothing starts in the whole fleet. After the resume, its slots are treated like those of an outage."""

from __future__ import annotations

import logging

import pytest

from stampede_guard.errors import Misuse
from tests.jobs.fleet import Fleet, virtually


def warnings(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_starts_while_it_is_paused_and_the_next_slot_after_the_resume_is_on_time(seed: int) -> None:
    async def scenario(fleet: Fleet) -> None:
        for _ in range(3):
            fleet.worker().tick(10, misfire_grace=5).start()
        await fleet.until(35)
        await fleet.workers[0].jobs.pause("tick", by="Ada")
        await fleet.until(1_006)
        await fleet.workers[1].jobs.resume("tick")
        await fleet.until(1_035)
        assert fleet.slots() == dict.fromkeys([10, 20, 30, 1_010, 1_020, 1_030], 1)
        runs = await fleet.history()
        assert runs[1_010].started_at - runs[1_010].slot / 1000 < 1
        missed = {run.error for slot, run in runs.items() if 35 < slot < 1_000}
        assert missed == {"the job was paused"}
        assert sum(run.outcome == "missed" for run in runs.values()) == 97

    virtually(scenario, seed=seed)


def test_what_may_still_begin_after_the_resume_runs_as_after_an_outage(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(fleet: Fleet) -> None:
        fleet.worker().tick(10, misfire_grace=25, coalesce=False, overlap="allow").start()
        await fleet.until(35)
        await fleet.workers[0].jobs.pause("tick")
        await fleet.until(96)
        await fleet.workers[0].jobs.resume("tick")
        await fleet.until(105)
        outcomes = await fleet.outcomes()
        assert {slot for slot, outcome in outcomes.items() if outcome == "missed"} == {40, 50, 60, 70}
        assert {slot for slot in fleet.slots() if slot > 35} == {80, 90, 100}

    virtually(scenario)
    assert warnings(caplog, "paused by") == 1
    assert warnings(caplog, "tick: resumed") == 1
    assert not warnings(caplog, "slots missed")


@pytest.mark.parametrize(("by", "told"), [("a\0b", "a\\0b"), ("caf\udce9", "caf\\udce9")])
def test_who_paused_it_is_kept_as_text_that_every_back_end_can_keep(by: str, told: str) -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker().tick(10).start()
        await fleet.until(15)
        assert (await worker.jobs.pause("tick", by=by)).paused_by == told

    virtually(scenario)


def test_a_run_goes_on_and_by_hand_another_one_starts(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker().tick(100, takes=50, overlap="allow").start()
        await fleet.until(110)
        await worker.jobs.pause("tick")
        ending = await worker.jobs.run_now("tick")
        assert ending.outcome == "completed"
        assert (await fleet.outcomes())[100] == "completed"
        view = await worker.jobs.view("tick")
        assert view is not None and view.paused_at

    virtually(scenario)
    assert warnings(caplog, "it runs by hand, and stays paused") == 1


def test_a_worker_that_starts_meanwhile_starts_nothing() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.worker().tick(10).start()
        await fleet.until(15)
        await first.jobs.pause("tick")
        fleet.worker(version=1).tick(5).start()
        await fleet.until(300)
        assert fleet.slots() == {10: 1}

    virtually(scenario)


def test_a_schedule_of_a_paused_job_is_never_given_to_another_deployment() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.worker(version=1).tick(10).start()
        await fleet.until(5)
        await first.jobs.pause("tick")
        fleet.worker().tick(8).start()
        await fleet.until(2_000)
        view = await first.jobs.view("tick")
        assert view is not None and view.rhythm == 10

    virtually(scenario)


def test_only_a_registered_job_can_be_paused() -> None:
    async def scenario(fleet: Fleet) -> None:
        jobs = fleet.worker().jobs
        for step in (jobs.pause, jobs.resume):
            with pytest.raises(Misuse, match="no worker ever registered a job 'nope'"):
                await step("nope")

    virtually(scenario)
