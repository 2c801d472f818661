"""How one worker follows a schedule: when it looks, what it tells, and what it keeps its hands off."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable

import pytest

from stampede_guard.errors import StoreRefused, StoreUnavailable
from stampede_guard.jobs.backends.memory import runs_beside
from stampede_guard.jobs.following.follower import Follower
from tests.jobs.fleet import EPOCH, Fleet, Worker, virtually
from tests.jobs.test_races import Between

EVERY_STEP = ("register", "follow", "sweep", "claim", "record")


async def away() -> None:
    raise StoreUnavailable("gone")


def follower(worker: Worker) -> Follower:
    return worker.jobs._followers["tick"][0]


def told(caplog: pytest.LogCaptureFixture, text: str) -> int:
    return sum(text in record.getMessage() for record in caplog.records)


def test_each_absence_of_the_back_end_is_told_once_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        fleet.worker(runs=lambda: between).tick(10).start()
        for begin in (15, 115):
            await fleet.until(begin)
            between.before = dict.fromkeys(EVERY_STEP, away)
            await fleet.until(begin + 60)
            between.before.clear()
        await fleet.until(300)

    virtually(scenario)
    assert told(caplog, "no new run starts because the back end is away: gone") == 2
    assert told(caplog, "the back end is back") == 2


def test_a_refusal_is_not_called_an_absence(caplog: pytest.LogCaptureFixture) -> None:
    async def refuses() -> None:
        raise StoreRefused("the tables are missing")

    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        between.before = dict.fromkeys(EVERY_STEP, refuses)
        fleet.worker(runs=lambda: between).tick(10).start()
        await fleet.until(15)

    virtually(scenario)
    assert told(caplog, "no new run starts because the back end refuses: the tables are missing") == 1


def test_after_each_absence_it_asks_again_soon() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        fleet.worker(runs=lambda: between).tick(100).start()
        await fleet.until(90)
        between.before = dict.fromkeys(EVERY_STEP, away)
        await fleet.until(190)
        between.before.clear()
        await fleet.until(250)
        between.before["claim"] = away
        await fleet.until(300.2)
        between.before.clear()
        await fleet.until(310)
        begun = (await fleet.history())[300].started_at - EPOCH
        assert 300.2 < begun < 301.5

    virtually(scenario)


def test_while_it_is_away_it_is_asked_less_and_less_often_but_every_five_seconds() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        asked: list[float] = []

        async def gone() -> None:
            asked.append(fleet.loop.time())
            raise StoreUnavailable("gone")

        between.before["register"] = gone
        fleet.worker(runs=lambda: between).tick(100).start()
        await fleet.until(60)
        pauses = [later - earlier for earlier, later in itertools.pairwise(asked)]
        assert [round(pause, 1) for pause in pauses[:5]] == [
            pytest.approx(seconds, rel=0.05) for seconds in (0.5, 1, 2, 4, 5)
        ]
        assert len(asked) == 5 + 10

    virtually(scenario)


def test_what_a_mistake_was_is_told_with_its_place_and_what_a_store_says_without(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def look(step: Callable[[], Awaitable[object]]) -> None:
        async def scenario(fleet: Fleet) -> None:
            between = Between(runs_beside(fleet.rows))
            between.before["register"] = step
            fleet.worker(runs=lambda: between).tick(100).start()
            await fleet.until(10)

        virtually(scenario)

    async def broken() -> None:
        raise LookupError("a password")

    look(away)
    look(broken)
    traces = [record.exc_info for record in caplog.records if "no new run starts" in record.getMessage()]
    assert [bool(trace) for trace in traces] == [False, True]


def test_who_follows_no_schedule_that_counts_writes_none_of_its_slots_down() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        old = fleet.worker(runs=lambda: between).tick(15, misfire_grace=2).start()
        await fleet.until(5)
        fleet.worker().tick(1_200).start()
        await fleet.until(50)
        assert follower(old).outdated == "every 1200 s"
        between.before["follow"] = away
        await fleet.until(150)
        between.before.clear()
        await fleet.until(295)
        assert await fleet.outcomes() == {}
        assert "record" not in between.asked
        # Nor does it look at them again and again.
        assert follower(old)._since == round((EPOCH + 285) * 1000)

    virtually(scenario)


def test_who_cannot_see_for_sure_takes_nothing_over() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        new = fleet.worker(runs=lambda: between).tick(600).start()
        await fleet.until(5)
        old = fleet.worker().tick(1_200).start()
        await fleet.until(100)
        old.kill()

        async def every_other() -> None:
            nonlocal times
            times += 1
            if times % 2:
                raise StoreUnavailable("gone")

        times = 0
        between.before["follow"] = every_other
        await fleet.until(2_000)
        assert follower(new).outdated == "every 1200 s"
        between.before.clear()
        await fleet.until(2_300)
        assert follower(new).outdated == ""

    virtually(scenario)


def test_a_schedule_of_others_is_not_looked_at_all_the_time_however_short_their_signs_are_good() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        fleet.worker(runs=lambda: between).tick(1_200).start()
        await fleet.until(5)
        fleet.worker().tick(600, lease_ttl=0.3).start()
        await fleet.until(100)
        between.asked.clear()
        await fleet.until(120)
        assert 18 <= between.asked.count("follow") <= 21

    virtually(scenario)


def test_nor_as_seldom_as_others_give_signs_where_its_own_runs_are_to_be_looked_after_more_often() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        fleet.worker(runs=lambda: between).tick(1_200, lease_ttl=6).start()
        await fleet.until(5)
        fleet.worker().tick(600, lease_ttl=3_600).start()
        await fleet.until(100)
        between.asked.clear()
        await fleet.until(145)
        assert 9 <= between.asked.count("follow") <= 11

    virtually(scenario)


def test_vanished_runs_are_noticed_half_an_alive_for_later_at_most() -> None:
    async def scenario(fleet: Fleet) -> None:
        doomed = fleet.worker().tick(1_200, takes=1e9).start()
        await fleet.until(1_205)
        doomed.kill()
        fleet.worker().tick(1_200).start()
        await fleet.until(1_200 + 90 * 1.5 + 3)
        run = (await fleet.history())[1_200]
        assert run.outcome == "abandoned"
        assert run.finished_at - EPOCH >= 1_200 + 90

    virtually(scenario)


def test_one_worker_says_twice_in_alive_for_that_it_is_there() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        fleet.worker(runs=lambda: between).tick(7_200).start()
        await fleet.until(451)
        assert 9 <= between.asked.count("follow") <= 10
        view = await runs_beside(fleet.rows).view("shop:tick")
        assert view is not None and view.seen_for == 180.0

    virtually(scenario)


def test_who_starts_late_in_a_long_schedule_begins_where_it_was_followed_to() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.worker().tick(10).start()
        await fleet.until(95)
        await first.stop()
        between = Between(runs_beside(fleet.rows))
        fleet.worker(runs=lambda: between).tick(10, coalesce=False, overlap="queue").start()
        await fleet.until(96)
        assert "claim" not in between.asked, "what has its outcome is not asked for"
        await fleet.until(101)
        assert between.asked.count("claim") == 1

    virtually(scenario)


@pytest.mark.parametrize(("asks_for_it", "counts"), [(True, True), (True, False), (False, True)])
def test_what_is_to_be_tried_again_is_asked_for_where_it_would_be(asks_for_it: bool, counts: bool) -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        fleet.worker(runs=lambda: between).tick(1_200, retry_abandoned=asks_for_it).start()
        await fleet.until(5)
        if not counts:
            fleet.worker().tick(600).start()
            await fleet.until(60)
            between.asked.clear()
        await fleet.until(300)
        assert ("retriable" in between.asked) == (asks_for_it and counts)

    virtually(scenario)


def test_a_change_of_schedules_is_told_once_each_way(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(fleet: Fleet) -> None:
        fleet.worker().tick(1_200).start()
        await fleet.until(5)
        other = fleet.worker().tick(600).start()
        await fleet.until(400)
        await other.stop()
        await fleet.until(1_500)

    virtually(scenario)
    assert told(caplog, "a later deployment set the schedule 'every 600 s'") == 1
    assert told(caplog, "no worker follows the schedule 'every 600 s' any more") == 1
    assert told(caplog, "the schedule 'every 1200 s' is in force again") == 1


def test_only_slots_that_had_no_outcome_are_told_as_missed(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.worker().tick(10, misfire_grace=2).start()
        await fleet.until(15)
        await first.stop()
        await fleet.until(78)
        # Each of them finds the same slots missed, at the same time.
        between = Between(runs_beside(fleet.rows))
        between.after["register"] = lambda: asyncio.sleep(0.5)
        for _ in range(4):
            fleet.worker(runs=lambda: between).tick(10, misfire_grace=2).start()
        await asyncio.sleep(1)
        assert between.asked.count("record") == 4

    virtually(scenario)
    assert told(caplog, "slots missed") == 1
    assert told(caplog, "6 slots missed: no worker was there within misfire_grace=2 s") == 1


def test_what_was_written_down_is_not_written_again_though_the_next_claim_fails() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.worker().tick(10, misfire_grace=12).start()
        await fleet.until(15)
        await first.stop()
        await fleet.until(78)
        between = Between(runs_beside(fleet.rows))
        between.before["claim"] = away
        fleet.worker(runs=lambda: between).tick(10, misfire_grace=12).start()
        await fleet.until(79.9)
        assert between.asked.count("claim") > 1
        assert between.asked.count("record") == 1

    virtually(scenario)


def test_who_was_told_that_he_is_early_is_not_so_again_and_again() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        fleet.worker(runs=lambda: between).tick(5, lease_ttl=600).start()
        await fleet.until(22)
        between.asked.clear()
        fleet.step = -3
        await fleet.until(3 + 62)
        assert list(await fleet.outcomes()) == list(range(5, 61, 5))
        # Eight slots since; by a clock that is 1 % fast it asks a moment too early, and once more.
        assert between.asked.count("claim") < 4 * 8

    virtually(scenario)


def test_a_stop_waits_for_the_claim_that_is_on_its_way_and_for_its_run() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        between.after["claim"] = lambda: asyncio.sleep(1)
        worker = fleet.worker(runs=lambda: between).tick(10).start()
        await fleet.until(10.5)
        assert await fleet.outcomes() == {10: "running"}
        stopping = asyncio.create_task(worker.jobs.stop())
        await fleet.until(20)
        assert stopping.done()
        assert await fleet.outcomes() == {10: "completed"}

    virtually(scenario)


def test_a_claim_whose_answer_is_lost_while_its_worker_stops_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))

        async def lost() -> None:
            await asyncio.sleep(1)
            raise StoreUnavailable("no answer in time")

        between.after["claim"] = lost
        worker = fleet.worker(runs=lambda: between).tick(10).start()
        await fleet.until(10.5)
        await worker.jobs.stop()

    virtually(scenario)
    assert told(caplog, "the last claim got no answer: no answer in time") == 1


def test_a_slot_that_was_dealt_with_is_not_asked_for_again_though_the_next_one_fails() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.worker().tick(10).start()
        await fleet.until(15)
        await first.stop()
        await fleet.until(38)
        between = Between(runs_beside(fleet.rows))

        async def second_fails() -> None:
            if between.asked.count("claim") == 2:
                raise StoreUnavailable("gone")

        between.before["claim"] = second_fails
        worker = fleet.worker(runs=lambda: between).tick(10, coalesce=False, overlap="queue").start()
        await fleet.until(39.8)
        assert await fleet.outcomes() == dict.fromkeys([10, 20, 30], "completed")
        assert between.asked.count("claim") == 3
        # What is asked for later, for another attempt say, is another claim.
        assert follower(worker)._claims == {}

    virtually(scenario)


def test_who_is_refused_a_slot_learns_at_once_what_counts_and_tells_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(fleet: Fleet) -> None:
        old = fleet.worker().tick(10).start()
        await fleet.until(5)
        fleet.worker().tick(1_200).start()
        await fleet.until(11)
        assert follower(old).outdated == "every 1200 s"
        assert told(caplog, "a later deployment set the schedule 'every 1200 s'") == 1

    virtually(scenario)


def test_a_slot_of_a_job_that_was_forgotten_has_had_its_chance() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        between.before["claim"] = lambda: asyncio.sleep(0.5)
        worker = fleet.worker(runs=lambda: between).tick(10).start()
        await fleet.until(15)
        assert await worker.jobs.forget("tick")
        await fleet.until(31)
        history = await fleet.history()
        assert {slot: run.outcome for slot, run in history.items()} == {20: "missed", 30: "completed"}
        assert history[20].error == "the back end did not know the job any more"

    virtually(scenario)
