"""Which abandoned slots are run again, where the job's terms ask for it; in virtual time."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard.jobs.backends.memory import runs_beside
from tests.jobs.fleet import EPOCH, Fleet, Worker, virtually

HANGS = 1e9


async def vanish(fleet: Fleet, seconds: int, slots: int, **terms: Any) -> None:
    """So many workers, one after the other, each of which takes a slot and dies."""
    for number in range(1, slots + 1):
        doomed = fleet.worker().tick(seconds, takes=HANGS, lease_ttl=6, **terms).start()
        await fleet.until(number * seconds + 1)
        doomed.kill()
        # Until it is known that nobody holds the job's lease.
        await fleet.until(number * seconds + 20)


@pytest.mark.parametrize("slots", [2, 30])
def test_slots_that_were_abandoned_before_the_option_was_given_stay_so(slots: int) -> None:
    async def scenario(fleet: Fleet) -> None:
        await vanish(fleet, 300, slots)
        fleet.worker().tick(300, lease_ttl=6, retry_abandoned=True).start()
        await fleet.until(300 * slots + 290)
        assert await fleet.outcomes() == dict.fromkeys(range(300, 300 * slots + 1, 300), "abandoned")
        assert set(fleet.slots().values()) == {1}

    virtually(scenario)


def test_an_older_abandoned_slot_is_not_hidden_by_newer_ones_that_nobody_may_try_again() -> None:
    async def scenario(fleet: Fleet) -> None:
        await vanish(fleet, 300, 1, retry_abandoned=True)
        # The deployment after that did not ask for it.
        for number in range(2, 60):
            await fleet.until(number * 300 + 1)
            doomed = fleet.worker().tick(300, takes=HANGS, lease_ttl=6).start()
            await fleet.until(number * 300 + 2)
            doomed.kill()
            await fleet.until(number * 300 + 20)
        assert len(await runs_beside(fleet.rows).sweep("shop:tick")) == 59
        fleet.worker().tick(300, lease_ttl=6, retry_abandoned=True).start()
        await fleet.until(60 * 300 - 10)
        outcomes = await fleet.outcomes()
        assert [slot for slot, outcome in outcomes.items() if outcome == "completed"] == [300]

    virtually(scenario)


def test_a_slot_is_tried_again_however_long_nobody_was_there() -> None:
    async def scenario(fleet: Fleet) -> None:
        await vanish(fleet, 7_200, 1, retry_abandoned=True)
        await fleet.until(7 * 86_400 + 100)
        fleet.worker().tick(7_200, lease_ttl=6, retry_abandoned=True, misfire_grace=5).start()
        await fleet.until(7 * 86_400 + 200)
        assert (await fleet.history())[7_200].outcome == "completed"

    virtually(scenario)


def test_many_abandoned_slots_are_all_tried_again_a_portion_at_each_look() -> None:
    async def scenario(fleet: Fleet) -> None:
        terms: dict[str, Any] = {"lease_ttl": 60, "overlap": "allow", "retry_abandoned": True}
        doomed: Worker = fleet.worker().tick(1, takes=HANGS, **terms).start()
        await fleet.until(50.5)
        doomed.kill()
        fleet.worker().tick(1, **terms).start()
        # Each of its looks is 45 s apart; it has no more than twenty begun at once.
        await fleet.until(50 + 90 + 45 - 1)
        first = [slot for slot, count in fleet.slots().items() if slot <= 50 and count == 2]
        assert sorted(first) == list(range(1, len(first) + 1)), "the oldest first"
        assert len(first) % 20 == 0
        await fleet.until(50 + 90 + 4 * 45)
        assert [fleet.slots()[slot] for slot in range(1, 51)] == [2] * 50

    virtually(scenario)


def test_where_the_option_was_taken_back_nothing_is_tried_again() -> None:
    async def scenario(fleet: Fleet) -> None:
        await vanish(fleet, 300, 1, retry_abandoned=True)
        fleet.worker().tick(300, lease_ttl=6).start()
        await fleet.until(590)
        assert await fleet.outcomes() == {300: "abandoned"}

    virtually(scenario)


def test_a_run_by_hand_that_vanished_is_not_tried_again() -> None:
    async def scenario(fleet: Fleet) -> None:
        doomed = fleet.worker().tick(7_200, takes=HANGS, lease_ttl=6, retry_abandoned=True)
        pressed = fleet.loop.create_task(doomed.jobs.run_now("tick"))
        await fleet.until(10)
        doomed.kill()
        fleet.worker().tick(7_200, lease_ttl=6, retry_abandoned=True).start()
        await fleet.until(600)
        assert list((await fleet.outcomes()).values()) == ["abandoned"]
        assert len(fleet.ran) == 1 and not pressed.done()

    virtually(scenario)


def test_the_history_says_which_attempt_it_was_and_how_many_there_may_be() -> None:
    async def scenario(fleet: Fleet) -> None:
        await vanish(fleet, 300, 1, retry_abandoned=True)
        await fleet.until(310)
        await runs_beside(fleet.rows).sweep("shop:tick")
        run = (await fleet.history())[300]
        assert (run.attempt, run.attempts, run.slot) == (1, 3, int((EPOCH + 300) * 1000))

    virtually(scenario)
