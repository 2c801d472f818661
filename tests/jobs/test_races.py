"""What comes between two steps of a worker: it is stopped, frozen, deployed over, or its back end forgets."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from stampede_guard.errors import StoreUnavailable
from stampede_guard.jobs.backends.memory import runs_beside
from stampede_guard.jobs.messages import Early, Outdated
from stampede_guard.jobs.run import Run
from tests.jobs.fleet import EPOCH, Fleet, Worker, virtually


class Between:
    """The runs' back end. `before[method]()` is awaited before a step is carried out, `after` before it is answered."""

    def __init__(self, runs: Any) -> None:
        self._runs = runs
        self.before: dict[str, Callable[[], Awaitable[object]]] = {}
        self.after: dict[str, Callable[[], Awaitable[object]]] = {}
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._runs, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            self.asked.append(name)
            if name in self.before:
                await self.before[name]()
            answer = await method(*args, **kwargs)
            if name in self.after and not isinstance(answer, Early):
                await self.after[name]()
            return answer

        return call


def seconds(count: float) -> Callable[[], Awaitable[object]]:
    return lambda: asyncio.sleep(count)


@pytest.mark.parametrize("how", ["stop", "remove", "change"])
def test_a_claim_on_its_way_is_run_though_its_worker_follows_no_more(how: str) -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        between.after["claim"] = seconds(1)
        worker = fleet.worker(runs=lambda: between).tick(10).start()
        await fleet.until(10.5)
        assert between.asked[-1] == "claim"
        if how == "stop":
            await worker.stop()
        elif how == "remove":
            await worker.jobs.remove("tick")
        else:
            worker.jobs.put(worker.jobs._jobs["tick"])
        await fleet.until(14)
        assert await fleet.outcomes() == {10: "completed"}
        assert fleet.slots() == {10: 1}

    virtually(scenario)


def test_a_worker_that_was_frozen_before_it_began_leaves_its_slot_to_whom_it_belongs_by_then(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        fleet.worker(runs=lambda: between).tick(100, retry_abandoned=True, lease_ttl=6).start()
        await fleet.until(95)
        between.after["claim"] = seconds(60)
        fleet.worker().tick(100, retry_abandoned=True, lease_ttl=6).start()
        # The first comes first, and hears of it a minute later.
        fleet.workers[1].jobs._followers["tick"][1].cancel()
        await fleet.until(101)
        between.after.clear()
        fleet.workers[1].jobs._follow(fleet.workers[1].jobs._jobs["tick"])
        await fleet.until(190)
        assert [name for name, _ in fleet.ran] == ["w1"]
        assert await fleet.outcomes() == {100: "completed"}

    virtually(scenario)
    assert "abandoned after 0.0 s: the worker was frozen too long before the run began" in caplog.text


def test_whether_a_slot_is_still_its_own_must_be_known_before_it_begins_late(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))

        async def held_up() -> None:
            await asyncio.sleep(20)
            between.after["beat"] = gone

        async def gone() -> None:
            raise StoreUnavailable("gone")

        between.after["claim"] = held_up
        fleet.worker(runs=lambda: between).tick(100, lease_ttl=6).start()
        await fleet.until(140)
        assert fleet.ran == []
        # Whichever is first: this worker's word, or that nothing was heard of it.
        assert (await fleet.outcomes())[100] in ("missed", "abandoned")

    virtually(scenario)
    assert (
        "missed after 0.0 s: the worker cannot tell whether another worker took the slot: gone" in caplog.text
    )


def test_a_back_end_whose_clock_is_set_back_and_right_again_holds_nothing_up() -> None:
    async def scenario(fleet: Fleet) -> None:
        for _ in range(2):
            fleet.worker().tick(10).start()
        await fleet.until(13)
        fleet.step = -3_600
        await fleet.until(23)
        fleet.step = 0
        await fleet.until(61)
        outcomes = await fleet.outcomes()
        assert list(outcomes) == [10, 20, 30, 40, 50, 60]
        assert (outcomes[50], outcomes[60]) == ("completed", "completed")

    virtually(scenario)


def test_a_button_in_an_older_worker_does_not_bring_its_schedule_back() -> None:
    async def scenario(fleet: Fleet) -> None:
        old = fleet.worker().tick(10).start()
        await fleet.until(5)
        fleet.worker().tick(15).start()
        await fleet.until(6)
        assert (await old.jobs.run_now("tick")).outcome == "completed"
        await fleet.until(64)
        slots = [slot for slot, run in (await fleet.history()).items() if run.owner and slot % 5 == 0]
        assert sorted(slots) == [15, 30, 45, 60]

    virtually(scenario)


def test_a_button_does_not_ask_for_ever_when_its_job_goes_on_changing() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))

        class Changing:
            def __getattr__(self, name: str) -> Any:
                return getattr(between, name)

            async def claim(self, *args: Any, **kwargs: Any) -> Outdated:
                between.asked.append("claim")
                return Outdated("another")

        changing = Changing()
        worker = fleet.worker(runs=lambda: changing).tick(10)
        with pytest.raises(StoreUnavailable, match="20 claims of the job 'tick' in a row failed"):
            await worker.jobs.run_now("tick")
        assert between.asked.count("claim") == 20

    virtually(scenario)


def test_a_button_whose_caller_has_gone_still_runs_what_it_claimed() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        between.after["claim"] = seconds(1)
        worker = fleet.worker(runs=lambda: between).tick(3_600)
        pressed = asyncio.create_task(worker.jobs.run_now("tick"))
        await asyncio.sleep(0.5)
        pressed.cancel()
        await asyncio.sleep(2)
        assert list((await fleet.outcomes()).values()) == ["completed"]

    virtually(scenario)


@pytest.mark.parametrize("seed", range(10))
def test_a_slot_that_is_tried_again_waits_for_the_run_that_is_in_its_way(seed: int) -> None:
    async def scenario(fleet: Fleet) -> None:
        def worker() -> Worker:
            made = fleet.worker()

            async def tick(run: Run) -> None:
                fleet.ran.append((made.name, round(run.slot.timestamp() * 1000)))
                await asyncio.sleep(1_000 if len(fleet.ran) == 1 else 4.5)

            made.jobs.every(5, retry_abandoned=True, lease_ttl=6, misfire_grace=15)(tick)
            return made.start()

        first = worker()
        await fleet.until(6)
        worker(), worker()
        first.kill()
        await fleet.until(60)
        tried = (await fleet.history())[5]
        assert (tried.outcome, tried.attempt) == ("completed", 2)

    virtually(scenario, seed=seed)


@pytest.mark.parametrize("count", [1, 3])
def test_a_slot_that_the_back_end_forgot_before_it_began_has_an_outcome_and_the_job_goes_on(
    count: int,
) -> None:
    async def scenario(fleet: Fleet) -> None:
        workers = [fleet.worker().tick(10).start() for _ in range(count)]
        await fleet.until(15)
        assert await workers[0].jobs.forget("tick")
        await fleet.until(41)
        # It may be found registered again already.
        outcomes = await fleet.outcomes()
        assert outcomes.pop(20) in ("missed", "completed")
        assert outcomes == {30: "completed", 40: "completed"}
        assert set(fleet.slots().values()) == {1}

    virtually(scenario)


def test_an_error_of_any_kind_does_not_end_a_worker_for_good(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))

        async def broken() -> None:
            raise LookupError("a password that could not be fetched")

        fleet.worker(runs=lambda: between).tick(10, lease_ttl=6).start()
        await fleet.until(15)
        between.after = {"view": broken, "sweep": broken}
        await fleet.until(25)
        between.after.clear()
        await fleet.until(71)
        assert (await fleet.outcomes())[70] == "completed"

    virtually(scenario)
    assert "could not be fetched" in caplog.text


def test_slots_since_a_schedule_counts_again_are_nobody_elses_to_leave_out() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.worker().tick(10, lease_ttl=60).start()
        await fleet.until(12)
        other = fleet.worker().tick(15).start()
        await fleet.until(31)
        await other.stop()
        # It brings the first schedule back and dies before it runs a slot of it.
        back = fleet.worker().tick(10).start()
        await fleet.until(33)
        back.kill()
        await fleet.until(119)
        outcomes = await fleet.outcomes()
        assert set(outcomes) == {10, 15, 30, *range(40, 111, 10)}
        assert first.jobs._followers["tick"][0].outdated == ""

    virtually(scenario)


def test_a_slot_that_is_tried_again_is_not_too_late_for_it() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = (
            fleet.worker().tick(300, takes=1_000, retry_abandoned=True, misfire_grace=5, lease_ttl=6).start()
        )
        await fleet.until(301)
        first.kill()
        fleet.worker().tick(300, retry_abandoned=True, misfire_grace=5, lease_ttl=6).start()
        await fleet.until(330)
        run = (await fleet.history())[300]
        assert (run.outcome, run.attempt) == ("completed", 2)

    virtually(scenario)


def test_a_job_that_was_forgotten_is_known_again_before_its_next_slot() -> None:
    async def scenario(fleet: Fleet) -> None:
        workers = [fleet.worker().tick(3_600).start() for _ in range(2)]
        await fleet.until(5)
        assert await workers[0].jobs.forget("tick")
        await fleet.until(60)
        view = await workers[0].jobs.view("tick")
        assert view is not None and view.rhythm == 3_600

    virtually(scenario)


def test_a_worker_learns_of_another_schedule_before_its_next_slot() -> None:
    async def scenario(fleet: Fleet) -> None:
        old = fleet.worker().tick(3_600).start()
        await fleet.until(5)
        fleet.worker().tick(1_800).start()
        await fleet.until(60)
        follower, _ = old.jobs._followers["tick"]
        assert follower.outdated == "every 1800 s"

    virtually(scenario)


def test_a_slot_that_is_tried_again_waits_for_nobody_where_runs_may_overlap() -> None:
    async def scenario(fleet: Fleet) -> None:
        terms = {"retry_abandoned": True, "overlap": "allow", "lease_ttl": 6}
        first = fleet.worker().tick(5, takes=1_000, **terms).start()
        await fleet.until(6)
        fleet.worker().tick(5, takes=1_000, **terms).start()
        first.kill()
        await fleet.until(30)
        assert fleet.slots()[5] == 2

    virtually(scenario)


def test_a_claim_that_comes_through_too_late_is_missed_at_once_and_not_run() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        fleet.worker(runs=lambda: between).tick(100, misfire_grace=2).start()
        await fleet.until(95)
        between.before["claim"] = seconds(8)
        await fleet.until(120)
        run = (await fleet.history())[100]
        assert run.outcome == "missed" and "misfire_grace=2" in run.error
        assert fleet.ran == []

    virtually(scenario)


def test_at_most_once_holds_for_a_claim_that_was_held_up_until_the_slot_was_abandoned() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        between.before["claim"] = seconds(40)
        fleet.worker(runs=lambda: between).tick(100, lease_ttl=6).start()
        first = fleet.worker().tick(100, takes=1e9, lease_ttl=6).start()
        await fleet.until(100.3)
        assert fleet.ran == [("w1", round((EPOCH + 100) * 1000))]
        first.kill()
        await fleet.until(190)
        assert between.asked.count("claim") == 1
        assert len(fleet.ran) == 1
        assert await fleet.outcomes() == {100: "abandoned"}

    virtually(scenario)


def test_a_slot_whose_lease_cannot_be_had_is_missed_and_that_is_told() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker().tick(100, misfire_grace=5).start()

        async def away(*_: Any, **__: Any) -> Any:
            raise StoreUnavailable("gone")

        worker.leases.part().backend.acquire = away  # type: ignore[method-assign]
        await fleet.until(120)
        run = (await fleet.history())[100]
        assert (run.outcome, fleet.ran) == ("missed", [])
        assert run.error == "the back end granted no lease: gone"

    virtually(scenario)


def test_an_outcome_that_cannot_be_written_down_yet_is_written_down_later() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))

        async def away() -> None:
            raise StoreUnavailable("gone")

        fleet.worker(runs=lambda: between).tick(100, takes=1).start()
        await fleet.until(100.5)
        between.before["finish"] = away
        await fleet.until(130)
        assert await fleet.outcomes() == {100: "running"}
        between.before.clear()
        await fleet.until(140)
        assert await fleet.outcomes() == {100: "completed"}

    virtually(scenario)
