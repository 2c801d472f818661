"""Slots of a schedule that another scheduler keeps are looked after like those of our own."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard.errors import StoreUnavailable
from stampede_guard.leases.jobs import foreign
from stampede_guard.leases.jobs.foreign import ForeignSlots, Kept
from stampede_guard.leases.jobs.job import Terms
from stampede_guard.leases.jobs.run import Run
from stampede_guard.leases.runs.words import Claim
from stampede_guard.leases.words import Owner
from tests.leases.jobs.fleet import EPOCH, Fleet, virtually

SCHEDULE = Kept("every 10 s", 10)


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
        await fleet.rows.runs.claim(claim)
        await fleet.until(41)
        await slots.run("tick", SCHEDULE, slot_at(40), nothing, terms)
        assert await fleet.outcomes() == {10: "completed", 20: "abandoned", 40: "completed"}

    virtually(scenario)


def test_its_history_stays_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "KEEP", 5)
    monkeypatch.setattr(foreign, "KEEP_FOR", 0.0)

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
                return getattr(fleet.rows.runs, name)

            async def claim(self, claim: Claim, *, timeout: float) -> Any:
                answer = await fleet.rows.runs.claim(claim)
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
