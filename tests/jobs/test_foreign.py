"""Slots of a schedule that another scheduler keeps are looked after like those of our own."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard.errors import StoreUnavailable
from stampede_guard.jobs.apscheduler import external
from stampede_guard.jobs.apscheduler.external import ExternalSchedule, ForeignSlots
from stampede_guard.jobs.backends.memory import runs_beside
from stampede_guard.jobs.job import Terms
from stampede_guard.jobs.messages import Claim, Taken
from stampede_guard.jobs.run import Run
from stampede_guard.leases.messages import Owner
from tests.jobs.fleet import EPOCH, Fleet, virtually

SCHEDULE = ExternalSchedule("every 10 s", 10)


async def nothing(_: Run) -> None:
    pass


def slot_at(seconds: float) -> int:
    return round((EPOCH + seconds) * 1000)


def test_a_vanished_run_is_noticed_when_the_next_slot_comes() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker()
        slots, terms = ForeignSlots(worker.jobs), Terms(lease_ttl=6)
        await fleet.until(11)
        await slots.run("tick", SCHEDULE, slot_at(10), nothing, terms)
        await fleet.until(21)
        view = await worker.jobs.view("tick")
        assert view is not None
        claim = Claim(
            job=view.job, slot=slot_at(20), run="of a pod that dies", owner=Owner(process="p"), alive_for=9,
            fingerprint=view.fingerprint,
        )  # fmt: skip
        await runs_beside(fleet.rows).claim(claim)
        await fleet.until(41)
        await slots.run("tick", SCHEDULE, slot_at(40), nothing, terms)
        assert await fleet.outcomes() == {10: "completed", 20: "abandoned", 40: "completed"}

    virtually(scenario)


def test_its_history_stays_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "KEEP", 5)
    monkeypatch.setattr(external, "KEEP_FOR", 0.0)

    async def scenario(fleet: Fleet) -> None:
        slots = ForeignSlots(fleet.worker().jobs)
        for number in range(1, 2_000):
            await fleet.until(number * 10 + 1)
            await slots.run("tick", SCHEDULE, slot_at(number * 10), nothing, Terms())
        assert len(await fleet.history()) < 5 + 3_600 * 1.5 / 10 + 2

    virtually(scenario)


def test_a_claim_whose_answer_was_lost_is_asked_for_again() -> None:
    async def scenario(fleet: Fleet) -> None:
        class Losing:
            lost = 0

            def __getattr__(self, name: str) -> Any:
                return getattr(runs_beside(fleet.rows), name)

            async def claim(self, claim: Claim, *, timeout: float) -> Any:
                answer = await runs_beside(fleet.rows).claim(claim)
                if self.lost < 2:
                    self.lost += 1
                    raise StoreUnavailable("no answer in time")
                return answer

        losing = Losing()
        slots = ForeignSlots(fleet.worker(runs=lambda: losing).jobs)
        await fleet.until(11)
        await slots.run("tick", SCHEDULE, slot_at(10), nothing, Terms())
        assert await fleet.outcomes() == {10: "completed"}

    virtually(scenario)


def test_in_the_middle_of_a_deploy_one_schedule_counts_and_not_each_in_turn(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(fleet: Fleet) -> None:
        old, new = (ForeignSlots(fleet.worker().jobs) for _ in range(2))
        later = ExternalSchedule("every 10 s, 5 s later", 10)
        await fleet.until(11)
        await old.run("tick", SCHEDULE, slot_at(10), nothing, Terms())
        for begin in range(20, 100, 10):
            await fleet.until(begin + 1)
            if begin > 20:
                assert await old.run("tick", SCHEDULE, slot_at(begin), nothing, Terms()) == Taken("missed")
            await fleet.until(begin + 6)
            await new.run("tick", later, slot_at(begin + 5), nothing, Terms())
        assert list(await fleet.outcomes()) == [10, *range(25, 105, 10)]
        assert caplog.text.count("a later deployment set the schedule") == 1

    virtually(scenario)


def test_a_schedule_counts_again_when_nobody_follows_the_later_one(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(fleet: Fleet) -> None:
        old, new = (ForeignSlots(fleet.worker().jobs) for _ in range(2))
        await fleet.until(11)
        await old.run("tick", SCHEDULE, slot_at(10), nothing, Terms(misfire_grace=5))
        await fleet.until(16)
        await new.run("tick", ExternalSchedule("every 20 s", 20), slot_at(15), nothing, Terms())
        for begin in range(20, 120, 10):
            await fleet.until(begin + 1)
            await old.run("tick", SCHEDULE, slot_at(begin), nothing, Terms(misfire_grace=5))
        assert list(await fleet.outcomes()) == [10, 15, *range(70, 120, 10)] or list(
            await fleet.outcomes()
        ) == [10, 15, *range(60, 120, 10)]
        assert "is in force again" in caplog.text

    virtually(scenario)


def test_a_later_schedule_without_a_rhythm_keeps_nobody_out_for_ever() -> None:
    async def scenario(fleet: Fleet) -> None:
        old, new = (ForeignSlots(fleet.worker().jobs) for _ in range(2))
        await fleet.until(11)
        await old.run("tick", SCHEDULE, slot_at(10), nothing, Terms())
        await new.run("tick", ExternalSchedule("at high tide"), slot_at(11), nothing, Terms())
        await fleet.until(31)
        for begin in (20, 30):
            await old.run("tick", SCHEDULE, slot_at(begin), nothing, Terms())
        assert list(await fleet.outcomes()) == [10, 11, 30]

    virtually(scenario)


def test_a_claim_that_is_cancelled_leaves_no_slot_that_runs() -> None:
    async def scenario(fleet: Fleet) -> None:
        class Slow:
            asked, answer = asyncio.Event(), asyncio.Event()

            def __getattr__(self, name: str) -> Any:
                return getattr(runs_beside(fleet.rows), name)

            async def claim(self, claim: Claim, *, timeout: float) -> Any:
                answer = await runs_beside(fleet.rows).claim(claim)
                self.asked.set()
                await self.answer.wait()
                return answer

        slow = Slow()
        worker = fleet.worker(runs=lambda: slow)
        await fleet.until(11)
        fired = asyncio.create_task(
            ForeignSlots(worker.jobs).run("tick", SCHEDULE, slot_at(10), nothing, Terms())
        )
        await slow.asked.wait()
        fired.cancel()
        await asyncio.wait({fired})
        assert fired.cancelled()
        slow.answer.set()
        await worker.leases.aclose()
        assert await fleet.outcomes() == {10: "abandoned"}

    virtually(scenario)


def test_a_firing_of_a_paused_job_is_missed_and_recorded_by_one_worker() -> None:
    async def scenario(fleet: Fleet) -> None:
        workers = [ForeignSlots(fleet.worker().jobs) for _ in range(3)]
        for worker in workers:
            await worker.register("tick", SCHEDULE, Terms())
        await fleet.workers[0].jobs.pause("tick", by="Ada")
        await fleet.until(11)
        answers = [await worker.run("tick", SCHEDULE, slot_at(10), nothing, Terms()) for worker in workers]
        assert [isinstance(answer, Taken) for answer in answers] == [False, True, True]
        assert (await fleet.history())[10].error == "the job is paused, by Ada"
        await fleet.workers[0].jobs.resume("tick")
        await fleet.until(21)
        await workers[0].run("tick", SCHEDULE, slot_at(20), nothing, Terms())
        assert await fleet.outcomes() == {10: "missed", 20: "completed"}

    virtually(scenario)


def test_a_job_that_was_forgotten_misses_a_slot_and_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker()
        slots = ForeignSlots(worker.jobs)
        for begin in (10, 20, 30):
            await fleet.until(begin + 1)
            await slots.run("tick", SCHEDULE, slot_at(begin), nothing, Terms())
            if begin == 10:
                await worker.jobs.forget("tick")
        assert await fleet.outcomes() == {20: "missed", 30: "completed"}
        assert "did not know the job any more" in caplog.text

    virtually(scenario)


def test_jobs_that_are_added_for_ever_are_not_remembered_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(external, "MOST_KNOWN", 10)

    async def scenario(fleet: Fleet) -> None:
        slots = ForeignSlots(fleet.worker().jobs)
        await fleet.until(11)
        for number in range(50):
            await slots.run(f"job-{number}", SCHEDULE, slot_at(10), nothing, Terms())
        assert len(slots._registered) == 10
        assert len(slots._prune_at) <= 10

    virtually(scenario)
