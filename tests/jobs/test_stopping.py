"""A worker stops: within bounds whatever its runs do, and nobody claims afterwards."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from stampede_guard.errors import Misuse, StoreUnavailable
from stampede_guard.jobs import Jobs
from stampede_guard.jobs.apscheduler.external import ExternalSchedule, ForeignSlots
from stampede_guard.jobs.backends.memory import runs_beside
from stampede_guard.jobs.job import Terms
from stampede_guard.jobs.run import Run
from stampede_guard.jobs.running import CANCELLED_FOR, Running
from stampede_guard.leases import MemoryLeases
from tests.jobs.fleet import Fleet, Worker, virtually
from tests.jobs.test_races import Between, seconds


async def cancelled_after(work: Any, after: float) -> None:
    task = asyncio.ensure_future(work)
    await asyncio.sleep(after)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def stubborn(worker: Worker, **terms: Any) -> list[str]:
    """A job called `tick` whose body does not care for being cancelled. What came to pass."""
    seen: list[str] = []

    @worker.jobs.every(100, name="tick", **terms)
    async def tick() -> None:
        seen.append("begun")
        for _ in range(100):
            try:
                await asyncio.sleep(1)
            except asyncio.CancelledError:
                seen.append("cancelled")

    return seen


@pytest.mark.parametrize("after", [0.0, 0.5, 1.5, 7.0])
def test_a_stop_that_is_cancelled_leaves_nobody_who_claims_and_no_run_behind(after: float) -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        worker = fleet.worker(runs=lambda: between, drain_timeout=1_000)
        worker.tick(10, takes=500.0, overlap="allow").start()
        await fleet.until(19.9)
        between.after["claim"] = seconds(1)
        await fleet.until(20.3)
        assert between.asked.count("claim") >= 2
        await cancelled_after(worker.jobs.stop(), after)
        await worker.jobs.stop()
        assert await fleet.outcomes() == {10: "abandoned", 20: "abandoned"}
        await fleet.until(100)
        assert list(await fleet.outcomes()) == [10, 20]

    virtually(scenario)


def test_a_second_stop_waits_for_the_first() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker(drain_timeout=30).tick(10, takes=15.0).start()
        await fleet.until(11)
        await asyncio.gather(worker.jobs.stop(), worker.jobs.stop())
        assert await fleet.outcomes() == {10: "completed"}
        await worker.jobs.stop()

    virtually(scenario)


def test_a_stop_that_is_cancelled_gives_runs_no_more_time() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker(drain_timeout=1_000).tick(10, takes=500.0).start()
        await fleet.until(11)
        await cancelled_after(worker.jobs.stop(), 1)
        await worker.jobs.stop()
        assert fleet.time() < runs_beside(fleet.rows)._clock() + 1
        run = (await fleet.history())[10]
        assert run.outcome == "abandoned"
        assert run.finished_at - run.started_at < 5

    virtually(scenario)


def test_after_a_stop_it_can_be_started_again_and_in_the_middle_of_one_it_cannot() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker().tick(10, takes=5.0).start()
        with pytest.raises(Misuse, match="have been started"):
            worker.jobs.start()
        await fleet.until(11)
        stopping = asyncio.create_task(worker.jobs.stop())
        await asyncio.sleep(1)
        with pytest.raises(Misuse, match=r"await jobs.stop\(\) before"):
            worker.jobs.start()
        await stopping
        await fleet.until(25)
        worker.jobs.start()
        await fleet.until(49)
        assert (await fleet.outcomes())[40] == "completed"
        assert set(fleet.slots().values()) == {1}

    virtually(scenario)


def test_a_body_that_does_not_care_for_being_cancelled_holds_no_stop_up(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker(drain_timeout=5)
        seen = stubborn(worker)
        worker.start()
        await fleet.until(101)
        before = fleet.loop.time()
        await worker.stop()
        assert fleet.loop.time() - before <= 5 + CANCELLED_FOR + 0.1
        assert seen == ["begun", "cancelled"]

    virtually(scenario)
    assert "1 runs did not end within drain_timeout=5 s and are cancelled" in caplog.text
    assert "shop:tick, slot 2025-10-09T00:01:40+00:00: the run goes on though it was cancelled" in caplog.text


def test_a_body_that_goes_on_beyond_its_time_limit_has_failed_whenever_it_returns() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker()

        @worker.jobs.every(100, time_limit=5)
        async def tick() -> None:
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                await asyncio.sleep(20)

        worker.start()
        await fleet.until(110)
        # It goes on, and is believed.
        assert await fleet.outcomes() == {100: "running"}
        await fleet.until(130)
        run = (await fleet.history())[100]
        assert (run.outcome, run.error) == ("failed", "TimeoutError: time_limit=5 s is over")

    virtually(scenario)


@pytest.mark.parametrize("drain_timeout", [0, 10])
def test_with_the_back_end_away_a_stop_ends_and_says_what_was_not_written_down(
    drain_timeout: float, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))

        async def away() -> None:
            raise StoreUnavailable("gone")

        worker = fleet.worker(runs=lambda: between, drain_timeout=drain_timeout)
        worker.tick(100, takes=50).start()
        await fleet.until(101)
        between.before = {"finish": away, "beat": away}
        before = fleet.loop.time()
        await worker.stop()
        assert fleet.loop.time() - before <= drain_timeout + CANCELLED_FOR + 0.1

    virtually(scenario)
    assert "the outcome 'abandoned' is not stored: gone" in caplog.text


def test_without_a_stop_an_outcome_is_tried_to_be_written_down_for_as_long_as_its_slot_counts_as_alive(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))

        async def away() -> None:
            raise StoreUnavailable("gone")

        fleet.worker(runs=lambda: between).tick(1_200, lease_ttl=20).start()
        between.before["finish"] = away
        await fleet.until(1_202 + 1.5 * 20)
        assert "is not stored" in caplog.text
        asked = between.asked.count("finish")
        await fleet.until(1_500)
        assert between.asked.count("finish") == asked > 5

    virtually(scenario)


def test_leases_that_are_closed_first_stop_their_jobs_first() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker(drain_timeout=30).tick(10, takes=5.0).start()
        await fleet.until(11)
        await worker.leases.aclose()
        assert await fleet.outcomes() == {10: "completed"}
        await worker.jobs.stop()
        await fleet.until(100)
        assert list(await fleet.outcomes()) == [10]

    virtually(scenario)


def test_leases_that_are_closed_do_not_wait_for_ever_for_a_run() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker(drain_timeout=5).tick(10, takes=1e6, overlap="allow").start()
        await fleet.until(11)
        pressed = asyncio.create_task(worker.jobs.run_now("tick"))
        await asyncio.sleep(1)
        before = fleet.loop.time()
        await worker.leases.aclose()
        assert fleet.loop.time() - before < 6
        # Who pressed the button is told, and not cancelled.
        assert (await pressed).outcome == "abandoned"
        assert (await fleet.outcomes())[10] == "abandoned"

    virtually(scenario)


def test_leases_are_closed_whatever_goes_wrong_with_what_is_to_end_before() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))

        async def broken() -> None:
            raise LookupError("it cannot be closed")

        between.before["aclose"] = broken
        worker = fleet.worker(runs=lambda: between).tick(10)
        async with worker.leases.hold("other"):
            worker.jobs.start()
            with pytest.raises(LookupError):
                await worker.leases.aclose()
            assert worker.leases._parts == {}

    virtually(scenario)


def test_a_run_by_hand_is_waited_for_though_nothing_was_started() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker().tick(3_600, takes=5.0)
        pressed = asyncio.create_task(worker.jobs.run_now("tick"))
        await asyncio.sleep(0)
        await worker.jobs.stop()
        assert set((await fleet.outcomes()).values()) == {"completed"}
        assert (await pressed).outcome == "completed"

    virtually(scenario)


def test_a_button_whose_caller_leaves_in_the_middle_of_the_run_lets_it_run() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker().tick(3_600, takes=5.0)
        await cancelled_after(worker.jobs.run_now("tick"), 2)
        assert set((await fleet.outcomes()).values()) == {"running"}
        await asyncio.sleep(4)
        assert set((await fleet.outcomes()).values()) == {"completed"}

    virtually(scenario)


def test_a_stop_may_be_given_less_time_than_was_agreed() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker(drain_timeout=1_000).tick(10, takes=500.0).start()
        await fleet.until(11)
        await worker.jobs.stop(drain_timeout=3)
        run = (await fleet.history())[10]
        assert run.outcome == "abandoned"
        assert run.finished_at - run.started_at < 5

    virtually(scenario)


def test_a_second_stop_may_have_less_patience_than_the_first() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker(drain_timeout=1_000).tick(10, takes=500.0).start()
        await fleet.until(11)
        first = asyncio.create_task(worker.jobs.stop())
        await asyncio.sleep(1)
        await worker.jobs.stop(drain_timeout=0)
        assert first.done() or await first is None
        run = (await fleet.history())[10]
        assert run.outcome == "abandoned"
        assert run.finished_at - run.started_at < 5

    virtually(scenario)


@pytest.mark.parametrize("used", [False, True])
def test_a_back_end_of_runs_that_was_opened_for_these_jobs_is_closed_with_them(used: bool) -> None:
    async def scenario(fleet: Fleet) -> None:
        opened: list[Between] = []

        def opening() -> Between:
            opened.append(Between(runs_beside(fleet.rows)))
            return opened[-1]

        worker = fleet.worker(runs=opening)
        if used:
            worker.tick(10)
        for _ in range(2):
            worker.jobs.start()
            await asyncio.sleep(11)
            await worker.jobs.stop()
        assert len(opened) == (2 if used else 0)
        assert [between.asked.count("aclose") for between in opened] == [1] * len(opened)

    virtually(scenario)


def test_a_function_in_a_thread_that_ignores_its_end_holds_no_stop_up_and_is_told_of(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_end, begun = threading.Event(), threading.Event()
    monkeypatch.setattr("stampede_guard.jobs.running.CANCELLED_FOR", 0.3)

    async def main() -> None:
        async with MemoryLeases() as leases:
            jobs = Jobs(leases, drain_timeout=0.01)

            @jobs.every(3_600)
            def plain(run: Run) -> None:
                begun.set()
                may_end.wait(60)

            pressed = asyncio.create_task(jobs.run_now("plain"))
            assert await asyncio.to_thread(begun.wait, 60)
            async with asyncio.timeout(30):
                await jobs.stop()
            assert not may_end.is_set()
            ending = await pressed
            assert ending.outcome == "abandoned"
            assert ending.error == "the worker was stopped; its function goes on in a thread"
            (run,) = await jobs.history("plain")
            assert (run.outcome, run.error) == (ending.outcome, ending.error)

    try:
        asyncio.run(main())
        assert "goes on in its thread" in caplog.text
        # There was time left to write that down.
        assert "no longer waits for it" not in caplog.text
    finally:
        may_end.set()


async def test_an_error_that_no_run_should_end_with_is_told(caplog: pytest.LogCaptureFixture) -> None:
    class Mistaken:
        async def perform(self) -> None:
            raise LookupError("a mistake")

    running = Running()
    await asyncio.wait({running.begin(Mistaken())})  # type: ignore[arg-type]
    await running.drain(0)
    assert len(running) == 0
    assert "ended because of a bug in stampede_guard" in caplog.text


def test_a_function_in_a_thread_that_looks_is_waited_for_by_a_stop() -> None:
    async def main() -> None:
        async with MemoryLeases() as leases:
            jobs, begun = Jobs(leases, drain_timeout=0), threading.Event()

            @jobs.every(3_600)
            def plain(run: Run) -> None:
                begun.set()
                assert run.stopping.wait(60)
                run.report(seen=1)

            pressed = asyncio.create_task(jobs.run_now("plain"))
            assert await asyncio.to_thread(begun.wait, 60)
            await jobs.stop()
            ending = await pressed
            assert (ending.outcome, ending.error) == ("abandoned", "the worker was stopped")
            assert ending.counters == {"seen": 1}

    asyncio.run(main())


def test_a_lifespan_whose_end_is_cancelled_leaves_nothing_open() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker(drain_timeout=1_000).tick(10, takes=500.0)

        async def serve() -> None:
            async with worker.jobs.lifespan():
                await fleet.until(11)

        await cancelled_after(serve(), 12)
        assert await fleet.outcomes() == {10: "abandoned"}
        assert worker.leases._parts == {}
        await fleet.until(60)
        assert list(await fleet.outcomes()) == [10]

    virtually(scenario)


def test_a_back_end_that_comes_back_while_a_worker_stops_hears_what_became_of_its_run() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))

        async def away() -> None:
            raise StoreUnavailable("gone")

        worker = fleet.worker(runs=lambda: between, drain_timeout=0).tick(100, takes=50).start()
        await fleet.until(101)
        between.before = {"finish": away}
        stopping = asyncio.create_task(worker.jobs.stop())
        await asyncio.sleep(6)
        assert await fleet.outcomes() == {100: "running"}
        between.before.clear()
        await stopping
        assert await fleet.outcomes() == {100: "abandoned"}

    virtually(scenario)


def test_a_short_run_asks_for_its_claim_and_its_end_and_for_nothing_else() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        worker = fleet.worker(runs=lambda: between).tick(3_600, takes=1)
        assert (await worker.jobs.run_now("tick")).outcome == "completed"
        await fleet.until(1_000)
        assert between.asked == ["view", "register", "claim", "finish"]

    virtually(scenario)


@pytest.mark.parametrize("waits_for", ["chance", "its turn"])
def test_a_worker_that_is_stopped_before_its_run_has_begun_gives_the_slot_its_outcome(waits_for: str) -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker(drain_timeout=0)
        if waits_for == "chance":
            worker.tick(100, jitter=60).start()
        else:
            worker.tick(100, overlap="queue").start()
            other = fleet.worker()
            holding = asyncio.create_task(held(other, until=130))
        await fleet.until(100.2)
        assert fleet.ran == []
        await worker.jobs.stop()
        run = (await fleet.history())[100]
        assert (run.outcome, run.error, run.counters) == ("abandoned", "the worker was stopped", {})
        assert fleet.ran == []
        if waits_for == "its turn":
            await holding

    async def held(other: Worker, *, until: float) -> None:
        async with other.leases.hold("tick"):
            await other.fleet.until(until)

    virtually(scenario, seed=3)


def test_an_outcome_that_is_being_written_down_is_waited_for_and_not_cut_off() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        between.before["finish"] = seconds(3)
        worker = fleet.worker(runs=lambda: between, drain_timeout=0).tick(100, takes=1).start()
        await fleet.until(102)
        assert between.asked[-1] == "finish"
        await worker.jobs.stop()
        assert await fleet.outcomes() == {100: "completed"}

    virtually(scenario)


def test_who_cancels_a_run_while_its_outcome_is_written_down_gets_it_cancelled_afterwards() -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))
        between.before["finish"] = seconds(3)
        worker = fleet.worker(runs=lambda: between)

        async def body(run: Run) -> None: ...

        slot = round(fleet.time() * 1000)
        another = ForeignSlots(worker.jobs).run("tick", ExternalSchedule("mine"), slot, body, Terms())
        await cancelled_after(another, 1)
        assert await fleet.outcomes() == {0: "completed"}

    virtually(scenario)


def test_a_beat_that_is_on_its_way_when_its_run_ends_is_not_torn_off() -> None:
    async def scenario(fleet: Fleet) -> None:
        between, answered = Between(runs_beside(fleet.rows)), []

        async def slow() -> None:
            await asyncio.sleep(2)
            answered.append(fleet.time())

        between.before["beat"] = slow
        # Heard of each 22.5 s by its clock: the run ends while it is told that it lives.
        fleet.worker(runs=lambda: between).tick(100, takes=23.5).start()
        await fleet.until(140)
        assert await fleet.outcomes() == {100: "completed"}
        assert len(answered) == 1

    virtually(scenario)


def test_leases_that_are_closed_beside_a_run_of_another_scheduler_do_not_wait_for_ever() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker(drain_timeout=5)

        async def body(run: Run) -> None:
            await asyncio.sleep(500)

        slot = round(fleet.time() * 1000)
        another = asyncio.create_task(
            ForeignSlots(worker.jobs).run("tick", ExternalSchedule("mine"), slot, body, Terms())
        )
        await asyncio.sleep(1)
        before = fleet.loop.time()
        await worker.leases.aclose()
        assert fleet.loop.time() - before <= 5 + CANCELLED_FOR + 0.1
        another.cancel()
        await asyncio.wait({another})
        assert await fleet.outcomes() == {0: "abandoned"}

    virtually(scenario)
