"""The slot was to be had and the lease was not: the back end of leases is away, that of slots is there."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard.errors import StoreUnavailable
from stampede_guard.jobs.execution import LONGEST_WAIT
from stampede_guard.leases.memory import MemoryBackend
from tests.jobs.fleet import Fleet, Worker, virtually


class Away(MemoryBackend):
    """Grants nothing until `back`, in the fleet's time."""

    back = 0.0

    async def acquire(self, ask: Any, *, timeout: float) -> Any:
        if self.rows.clock() < self.back:
            raise StoreUnavailable("no answer in time")
        return await super().acquire(ask, timeout=timeout)


def away_until(worker: Worker, seconds: float) -> Worker:
    backend = Away(worker.fleet.rows)
    backend.back = worker.fleet.time() + seconds
    worker.leases._open_backend = lambda: backend
    return worker


def test_a_slot_waits_for_its_lease_for_as_long_as_it_may_begin() -> None:
    async def scenario(fleet: Fleet) -> None:
        away_until(fleet.worker().tick(100, misfire_grace=60), 130).start()
        await fleet.until(129)
        assert fleet.ran == []
        await fleet.until(140)
        assert fleet.slots() == {100: 1}
        assert await fleet.outcomes() == {100: "completed"}

    virtually(scenario)


def test_a_slot_that_could_not_begin_in_time_for_want_of_a_lease_is_missed() -> None:
    async def scenario(fleet: Fleet) -> None:
        away_until(fleet.worker().tick(100, misfire_grace=10), 130).start()
        await fleet.until(140)
        assert fleet.ran == []
        run = (await fleet.history())[100]
        assert run.outcome == "missed" and "no answer in time" in run.error

    virtually(scenario)


def test_a_slot_that_may_begin_at_any_time_does_not_wait_for_a_lease_for_ever_and_tells_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(fleet: Fleet) -> None:
        away_until(fleet.worker().tick(21_600, misfire_grace=1e8), 30_000).start()
        await fleet.until(21_600 + LONGEST_WAIT + 60)
        assert fleet.ran == []
        assert await fleet.outcomes() == {21_600: "missed"}

    virtually(scenario)
    assert caplog.text.count("waiting for a lease") == 1


def test_while_it_waits_for_its_lease_its_slot_stays_its_own() -> None:
    async def scenario(fleet: Fleet) -> None:
        away_until(
            fleet.worker().tick(900, misfire_grace=100, lease_ttl=6, retry_abandoned=True), 950
        ).start()
        away_until(
            fleet.worker().tick(900, misfire_grace=100, lease_ttl=6, retry_abandoned=True), 950
        ).start()
        await fleet.until(1_000)
        assert fleet.slots() == {900: 1}
        assert (await fleet.history())[900].attempt == 1

    virtually(scenario)
