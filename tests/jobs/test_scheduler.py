"""Each slot has exactly one outcome, however many workers follow the schedule; in virtual time."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from itertools import product
from typing import Any

import pytest

from stampede_guard.errors import Misuse, PolicyError, StoreUnavailable
from stampede_guard.jobs import scheduler
from stampede_guard.jobs.backends.memory import runs_beside
from stampede_guard.jobs.run import Run
from stampede_guard.jobs.scheduler import Jobs
from stampede_guard.jobs.schedules.schedule import Every, slot_of
from stampede_guard.leases import MemoryLeases
from tests.jobs.fleet import EPOCH, Fleet, virtually
from tests.jobs.test_races import Between


def every_slot(seconds: int, until: int) -> list[int]:
    return list(range(seconds, until + 1, seconds))


@pytest.mark.parametrize(
    ("workers", "apart", "takes"), list(product([2, 8], [0.0, 0.05, 0.5], [0.0, 0.005, 0.5, 0.95]))
)
def test_each_slot_runs_once_whenever_workers_start_and_however_short_the_body(
    workers: int, apart: float, takes: float
) -> None:
    async def scenario(fleet: Fleet) -> None:
        for _ in range(workers):
            fleet.worker().tick(1, takes=takes).start()
            await asyncio.sleep(apart)
        await fleet.until(40.9)
        outcomes = await fleet.outcomes()
        # Those before the first worker was there are nobody's; from then on there is no gap.
        assert list(outcomes) == every_slot(1, 40)
        assert set(fleet.slots().values()) == {1}
        # The last may be running still.
        assert {outcomes[slot] for slot in every_slot(1, 39)} == {"completed"}

    virtually(scenario, seed=workers)


def test_a_slot_during_another_run_is_skipped_and_that_is_its_outcome() -> None:
    async def scenario(fleet: Fleet) -> dict[int, str]:
        for _ in range(4):
            fleet.worker().tick(10, takes=25.0).start()
        await fleet.until(69)
        assert list(fleet.slots()) == [10, 40]
        history = await fleet.history()
        assert "still runs it" in history[20].error
        return await fleet.outcomes()

    assert virtually(scenario) == {
        10: "completed", 20: "skipped", 30: "skipped", 40: "completed", 50: "skipped", 60: "skipped",
    }  # fmt: skip


def test_a_queued_slot_runs_when_the_one_before_has_ended() -> None:
    async def scenario(fleet: Fleet) -> None:
        for _ in range(3):
            fleet.worker().tick(10, takes=14.0, overlap="queue").start()
        await fleet.until(70)
        history = await fleet.history()
        assert {history[slot].outcome for slot in (10, 20, 30)} == {"completed"}
        for earlier, later in ((10, 20), (20, 30)):
            assert history[later].finished_at - history[earlier].finished_at >= 14.0
            assert history[later].token > history[earlier].token

    virtually(scenario)


def test_a_slot_that_replaces_ends_the_run_before_it() -> None:
    async def scenario(fleet: Fleet) -> None:
        for _ in range(3):
            fleet.worker().tick(30, takes=1_000.0, overlap="replace", lease_ttl=6).start()
        await fleet.until(59)
        assert await fleet.outcomes() == {30: "running"}
        await fleet.until(75)
        history = await fleet.history()
        assert (history[30].outcome, history[60].outcome) == ("failed", "running")
        assert "LeaseLost" in history[30].error

    virtually(scenario)


def test_runs_that_may_overlap_do() -> None:
    async def scenario(fleet: Fleet) -> dict[int, str]:
        for _ in range(3):
            fleet.worker().tick(10, takes=25.0, overlap="allow").start()
        await fleet.until(34)
        return await fleet.outcomes()

    assert virtually(scenario) == {10: "running", 20: "running", 30: "running"}


def test_slots_of_a_night_without_workers_are_missed_and_the_latest_that_may_is_run() -> None:
    async def scenario(fleet: Fleet) -> dict[int, str]:
        first = fleet.worker().tick(10, misfire_grace=25).start()
        await fleet.until(15)
        await first.stop()
        await fleet.until(68)
        for _ in range(3):
            fleet.worker().tick(10, misfire_grace=25).start()
        await fleet.until(69)
        history = await fleet.history()
        assert "misfire_grace=25" in history[30].error
        assert "coalesced into" in history[50].error
        return await fleet.outcomes()

    assert virtually(scenario) == {
        10: "completed", 20: "missed", 30: "missed", 40: "missed", 50: "missed", 60: "completed",
    }  # fmt: skip


def test_without_coalescing_what_may_still_run_runs_in_order() -> None:
    async def scenario(fleet: Fleet) -> None:
        first = fleet.worker().tick(10).start()
        await fleet.until(15)
        await first.stop()
        await fleet.until(48)
        for _ in range(2):
            fleet.worker().tick(10, coalesce=False, overlap="queue", takes=0.1).start()
        await fleet.until(49.9)
        assert await fleet.outcomes() == dict.fromkeys([10, 20, 30, 40], "completed")

    virtually(scenario)


def test_a_job_that_nobody_knew_begins_with_its_registration() -> None:
    async def scenario(fleet: Fleet) -> dict[int, str]:
        await fleet.until(1_200)
        fleet.worker().tick(10).start()
        await fleet.until(1_211)
        return await fleet.outcomes()

    assert virtually(scenario) == {1_210: "completed"}


def test_a_vanished_workers_slot_is_abandoned_and_the_job_goes_on() -> None:
    async def scenario(fleet: Fleet) -> dict[int, str]:
        doomed = fleet.worker().tick(10, takes=1e9, lease_ttl=6).start()
        await fleet.until(10.5)
        assert fleet.ran == [("w0", int((EPOCH + 10) * 1000))]
        doomed.kill()
        fleet.worker().tick(10, lease_ttl=6).start()
        await fleet.until(31)
        return await fleet.outcomes()

    assert virtually(scenario) == {10: "abandoned", 20: "completed", 30: "completed"}


def test_on_request_an_abandoned_slot_is_run_again_under_the_same_key_and_a_larger_token() -> None:
    async def scenario(fleet: Fleet) -> None:
        seen: list[tuple[str, int, int]] = []

        def job(worker: Any, *, hangs: bool) -> None:
            @worker.jobs.every(100, name="tick", lease_ttl=6, retry_abandoned=True)  # type: ignore[untyped-decorator]
            async def tick(run: Run) -> None:
                seen.append((run.key, run.attempt, run.token))
                if hangs:
                    await asyncio.Event().wait()

        doomed, other = fleet.worker(), fleet.worker()
        job(doomed, hangs=True)
        job(other, hangs=False)
        doomed.start()
        await fleet.until(100.5)
        other.start()
        doomed.kill()
        await fleet.until(140)
        (key, first, token), (key_again, second, later) = seen
        assert (first, second) == (1, 2)
        assert key == key_again
        assert later > token
        assert (await fleet.history())[100].attempt == 2
        assert await fleet.outcomes() == {100: "completed"}

    virtually(scenario)


@pytest.mark.parametrize("overlap", ["skip", "queue", "replace"])
def test_an_abandoned_slot_that_is_run_again_waits_for_a_later_slots_run(overlap: str) -> None:
    async def scenario(fleet: Fleet) -> None:
        terms: dict[str, Any] = {"overlap": overlap, "lease_ttl": 6, "retry_abandoned": True}
        doomed = fleet.worker().tick(200, takes=1e9, **terms).start()
        await fleet.until(200.5)
        doomed.kill()
        # The slot at 400 s is taken before anybody looks after the one that vanished, and takes longer than
        # misfire_grace.
        await fleet.until(399)
        fleet.worker().tick(200, takes=80.0, **terms).start()
        await fleet.until(590)
        history = await fleet.history()
        assert (history[200].outcome, history[200].attempt) == ("completed", 2)
        assert history[400].outcome == "completed"
        assert history[200].token > history[400].token

    virtually(scenario)


def test_an_abandoned_slot_is_not_tried_for_ever() -> None:
    async def scenario(fleet: Fleet) -> None:
        for _ in range(5):
            doomed = fleet.worker().tick(1_200, takes=1e9, lease_ttl=6, retry_abandoned=True).start()
            await fleet.until(1_200.5 if not fleet.ran else fleet.time() - EPOCH + 30)
            doomed.kill()
        assert len(fleet.ran) == 3
        await asyncio.sleep(30)
        assert (await fleet.history())[1_200].attempt == 3

    virtually(scenario)


def test_old_and_new_workers_agree_on_the_schedule_of_the_later_deployment() -> None:
    async def scenario(fleet: Fleet) -> dict[int, str]:
        fleet.worker(version=1).tick(10, lease_ttl=6).start()
        await fleet.until(25)
        fleet.worker(version=2).tick(15, lease_ttl=6).start()
        await fleet.until(46)
        # An old pod that crashed and came back does not bring its schedule back.
        fleet.worker(version=1).tick(10, lease_ttl=6).start()
        await fleet.until(91)
        return await fleet.outcomes()

    assert list(virtually(scenario)) == [10, 20, 30, 45, 60, 75, 90]


def test_a_deployment_back_to_the_older_schedule_counts_too() -> None:
    async def scenario(fleet: Fleet) -> dict[int, str]:
        old = fleet.worker().tick(10, lease_ttl=6).start()
        await fleet.until(15)
        new = fleet.worker().tick(100, lease_ttl=6).start()
        await old.stop()
        await fleet.until(35)
        fleet.worker().tick(10, lease_ttl=6).start()
        await new.stop()
        await fleet.until(61)
        return await fleet.outcomes()

    assert list(virtually(scenario)) == [10, 40, 50, 60]


def test_a_run_beyond_its_time_limit_is_cancelled_and_has_failed() -> None:
    async def scenario(fleet: Fleet) -> None:
        fleet.worker().tick(100, takes=50.0, time_limit=5.0).start()
        await fleet.until(106)
        run = (await fleet.history())[100]
        assert (run.outcome, run.error) == ("failed", "TimeoutError: time_limit=5 s is over")
        assert 4.9 < run.finished_at - run.started_at < 5.2

    virtually(scenario)


def test_what_a_run_counts_and_raises_is_in_its_history() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker()

        @worker.jobs.every(10)
        async def sync(run: Run) -> None:
            run.report(files=12)
            run.report(files=13, seconds=0.5)
            raise PermissionError("401")

        worker.start()
        await fleet.until(11)
        run = (await fleet.history("sync"))[10]
        assert (run.outcome, run.error) == ("failed", "PermissionError: 401")
        assert run.counters == {"files": 13, "seconds": 0.5}
        view = await worker.jobs.view("sync")
        assert view is not None
        assert (view.last_error, view.last_success_at) == ("PermissionError: 401", 0.0)

    virtually(scenario)


def test_a_run_knows_its_slot_and_the_last_success() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker()
        seen: list[tuple[datetime, datetime | None]] = []

        @worker.jobs.every(10)
        async def sync(run: Run) -> None:
            seen.append((run.slot, run.last_success_at))

        worker.start()
        await fleet.until(41)
        assert [slot_of(slot) / 1000 - EPOCH for slot, _ in seen] == [10, 20, 30, 40]
        assert seen[0][1] is None
        last = seen[-1][1]
        assert last is not None
        assert last.timestamp() >= EPOCH + 30

    virtually(scenario)


def test_what_changes_while_a_run_goes_on_is_there_for_the_next_one() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker()
        began: list[float] = []
        since: list[float | None] = []

        @worker.jobs.every(10)
        async def sync(run: Run) -> None:
            began.append(fleet.rows.clock())
            since.append(run.since.timestamp() if run.since is not None else None)
            await asyncio.sleep(4)
            if len(began) == 2:
                raise LookupError("half of it is not done")

        worker.start()
        await fleet.until(41)
        assert len(since) == 4 and since[0] is None
        # The second failed, so the third has to do with all that came since the first began.
        for now, before in ((1, 0), (2, 0), (3, 2)):
            found = since[now]
            assert found is not None and began[before] - 1 < found <= began[before]

    virtually(scenario)


def test_jitter_moves_the_run_and_not_the_slot() -> None:
    async def scenario(fleet: Fleet) -> None:
        for _ in range(4):
            fleet.worker().tick(100, jitter=30.0).start()
        await fleet.until(590)
        history = await fleet.history()
        assert sorted(history) == every_slot(100, 500)
        delays = {round(run.finished_at - EPOCH - slot, 3) for slot, run in history.items()}
        assert len(delays) == 5
        assert all(0 <= delay < 31 for delay in delays)

    virtually(scenario)


def test_a_worker_that_is_stopped_lets_its_run_end() -> None:
    async def scenario(fleet: Fleet) -> dict[int, str]:
        worker = fleet.worker(drain_timeout=30).tick(10, takes=5.0).start()
        await fleet.until(11)
        await worker.stop()
        return await fleet.outcomes()

    assert virtually(scenario) == {10: "completed"}


def test_a_run_that_outlasts_the_drain_is_handed_to_another_worker_at_once() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker(drain_timeout=5).tick(1_200, takes=60.0, retry_abandoned=True).start()
        fleet.worker().tick(1_200, takes=1.0, retry_abandoned=True).start()
        await fleet.until(1_201)
        by = next(known for known in fleet.workers if known.name == fleet.ran[0][0])
        if by is worker:
            await by.stop()
            assert (await fleet.history())[1_200].error == "the worker was stopped"
        await asyncio.sleep(90)
        assert await fleet.outcomes() == {1_200: "completed"}
        assert len(fleet.ran) == (2 if by is worker else 1)

    for seed in range(6):
        virtually(scenario, seed=seed)


def test_two_workers_follow_a_night_through_the_change_of_clocks() -> None:
    async def scenario(fleet: Fleet) -> None:
        workers = [fleet.worker(), fleet.worker()]
        runs: list[datetime] = []
        for worker in workers:

            @worker.jobs.cron("30 2 * * *", tz="Europe/Berlin", name="night", lease_ttl=3_600)
            async def night(run: Run) -> None:
                runs.append(run.slot)

            worker.start()
        # The beginning is 2025-10-09; clocks go back on 2025-10-26.
        await fleet.until(20 * 86_400)
        assert [f"{slot:%m-%d %H:%M}" for slot in runs if slot.day in (25, 26, 27)] == [
            "10-25 00:30",
            "10-26 00:30",
            "10-27 01:30",
        ]
        assert len(runs) == len(set(runs)) == 20

    virtually(scenario)


class _Unreachable:
    """The runs' back end behind a network that can be cut, or can lose answers."""

    def __init__(self, runs: Any) -> None:
        self._runs = runs
        self.cut = False
        self.lose_answers = 0

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._runs, name)

        async def call(*args: Any, **kwargs: Any) -> Any:
            if self.cut:
                raise StoreUnavailable("cut off")
            answer = await method(*args, **kwargs)
            if name in ("claim", "finish", "record") and self.lose_answers:
                self.lose_answers -= 1
                raise StoreUnavailable("no answer in time")
            return answer

        return call


def test_with_the_back_end_away_nothing_starts_and_what_was_missed_is_told_afterwards(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(fleet: Fleet) -> dict[int, str]:
        network = _Unreachable(runs_beside(fleet.rows))
        for _ in range(3):
            fleet.worker(runs=lambda: network).tick(10, misfire_grace=12, lease_ttl=6).start()
        await fleet.until(15)
        network.cut = True
        await fleet.until(55)
        assert list(fleet.slots()) == [10]
        network.cut = False
        await fleet.until(81)
        return await fleet.outcomes()

    outcomes = virtually(scenario)
    assert list(outcomes) == every_slot(10, 80)
    assert (outcomes[20], outcomes[30], outcomes[70], outcomes[80]) == (
        "missed",
        "missed",
        "completed",
        "completed",
    )
    told = [record.getMessage() for record in caplog.records if "no new run starts" in record.getMessage()]
    assert len(told) == 3


def test_a_claim_whose_answer_was_lost_is_still_this_workers() -> None:
    async def scenario(fleet: Fleet) -> dict[int, str]:
        network = _Unreachable(runs_beside(fleet.rows))
        network.lose_answers = 1
        fleet.worker(runs=lambda: network).tick(10).start()
        await fleet.until(19)
        assert list(fleet.slots()) == [10]
        return await fleet.outcomes()

    assert virtually(scenario) == {10: "completed"}


@pytest.mark.parametrize("takes", [1.0, 14.0])
def test_an_outcome_whose_answer_was_lost_is_written_down_once(
    takes: float, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(fleet: Fleet) -> None:
        network = _Unreachable(runs_beside(fleet.rows))
        fleet.worker(runs=lambda: network).tick(10, takes=takes, overlap="allow").start()
        # Also where a later slot is there by then.
        await fleet.until(9.5 + takes if takes > 1 else 10.5)
        network.lose_answers = 1
        await fleet.until(29 if takes > 1 else 19)
        assert (await fleet.outcomes())[10] == "completed"

    virtually(scenario)
    # It is no other run's, though the second time it was not to be had.
    assert "is not stored" not in caplog.text


@pytest.mark.parametrize("step", [-25.0, -3.0, 3.0, 25.0])
def test_a_back_end_whose_clock_is_set_gives_no_slot_two_outcomes(step: float) -> None:
    async def scenario(fleet: Fleet) -> None:
        for _ in range(4):
            fleet.worker().tick(10, lease_ttl=6).start()
        await fleet.until(33)
        fleet.step = step
        await asyncio.sleep(80)
        assert set(fleet.slots().values()) == {1}
        assert list(await fleet.outcomes()) == every_slot(10, round(fleet.time() - EPOCH - 1) // 10 * 10)

    virtually(scenario)


def test_a_run_by_hand_and_a_slot_do_not_overlap() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker().tick(10, takes=4.0).start()
        await fleet.until(8)
        by_hand = asyncio.create_task(worker.jobs.run_now("tick"))
        await fleet.until(13)
        assert (await by_hand).outcome == "completed"
        assert (await fleet.history())[10].outcome == "skipped"
        await fleet.until(21)
        assert (await worker.jobs.run_now("tick")).outcome == "skipped"
        with pytest.raises(Misuse, match="no job 'tock' in this program; it has tick"):
            await worker.jobs.run_now("tock")

    virtually(scenario)


def test_a_run_by_hand_is_no_slot_of_the_schedule() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker().tick(3_600)
        assert (await worker.jobs.run_now("tick")).outcome == "completed"
        view = await worker.jobs.view("tick")
        assert view is not None
        assert (view.last_slot, view.last_success_at > 0) == (0, True)

    virtually(scenario)


def test_a_button_and_a_tick_share_their_name() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker().tick(10).start()

        @worker.leases.run_exclusive("tick")
        async def button() -> str:
            await asyncio.sleep(4)
            return "pressed"

        await fleet.until(8)
        assert await button() == "pressed"
        assert await fleet.outcomes() == {10: "skipped"}

    virtually(scenario)


def test_a_plain_function_runs_in_a_thread_of_its_own() -> None:
    async def main() -> None:
        async with MemoryLeases() as leases:
            jobs = Jobs(leases)
            seen: list[Any] = []

            @jobs.every(3_600)
            def plain(run: Run) -> None:
                run.report(rows=3)
                seen.append(run.slot)

            assert (await jobs.run_now("plain")).outcome == "completed"
            (run,) = await jobs.history("plain")
            assert run.counters == {"rows": 3}
            assert len(seen) == 1

    asyncio.run(main())


def test_a_job_that_wants_no_run_gets_none() -> None:
    async def main() -> str:
        async with MemoryLeases() as leases:
            jobs = Jobs(leases)

            @jobs.every(3_600)
            async def bare() -> None: ...

            return (await jobs.run_now("bare")).outcome

    assert asyncio.run(main()) == "completed"


def test_the_dead_man_signal_tells_of_jobs_that_nobody_runs() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker().tick(10).start()
        await fleet.until(11)
        await worker.stop()
        await fleet.until(29)
        asked = fleet.worker()
        (well,) = await asked.jobs.health()
        assert not well.overdue
        await fleet.until(31)
        (late,) = await asked.jobs.health()
        assert (late.job, late.overdue) == ("shop:tick", True)
        assert await asked.jobs.forget("tick")
        assert await asked.jobs.health() == []

    virtually(scenario)


async def nothing() -> None: ...


async def other() -> None: ...


def test_what_cannot_be_is_refused_at_registration() -> None:
    jobs = Jobs(MemoryLeases())
    jobs.every(10, name="sync")(nothing)
    with pytest.raises(Misuse, match=r"two functions have the job name 'sync': .*nothing and .*other"):
        jobs.every(10, name="sync")(other)
    with pytest.raises(Misuse, match=r"has no time_limt \(do you mean time_limit\?\); it has .*overlap"):
        jobs.every(10, time_limt=3)(nothing)
    with pytest.raises(Misuse, match="needs a, b"):
        jobs.every(10)(lambda_of_two)
    with pytest.raises(Misuse, match="has no name"):
        jobs.every(10)(lambda: None)
    for field, value in (
        ("overlap", "never"),
        ("misfire_grace", 0),
        ("misfire_grace", float("nan")),
        ("jitter", -1),
        ("jitter", 61),
        ("time_limit", 0),
        ("lease_ttl", 0),
    ):
        with pytest.raises(PolicyError) as refused:
            jobs.every(10, name="fine", **{field: value})(nothing)
        assert refused.value.field == field


def lambda_of_two(a: int, b: int) -> None: ...


def test_a_schedule_can_be_added_changed_and_removed_while_running() -> None:
    async def scenario(fleet: Fleet) -> list[int]:
        worker = fleet.worker().tick(10, lease_ttl=6).start()
        await fleet.until(11)
        (job,) = worker.jobs._jobs.values()
        worker.jobs.add(job.function, Every.of(30), name="tick", lease_ttl=6)
        await fleet.until(61)
        await worker.jobs.remove("tick")
        await fleet.until(200)
        return list(await fleet.outcomes())

    assert virtually(scenario) == [10, 30, 60]


def test_the_history_is_pruned_and_a_pruned_slot_is_not_run_again() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker().tick(10).start()
        await fleet.until(105)
        runs = runs_beside(fleet.rows)
        assert await runs.prune("shop:tick", keep=3, older_than=30.0) == 7
        assert list(await fleet.outcomes()) == [80, 90, 100]
        await worker.stop()
        assert (
            await runs.record("shop:tick", slots=[int((EPOCH + 20) * 1000)], outcome="missed", error="") == 0
        )

    virtually(scenario)


def test_a_worker_prunes_the_history_now_and_then_whatever_went_wrong_before(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(scheduler, "KEEP", 3)
    monkeypatch.setattr(scheduler, "KEEP_FOR", 600.0)

    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))

        async def broken() -> None:
            between.before.clear()
            raise LookupError("a password that could not be fetched")

        between.before["prune"] = broken
        fleet.worker(runs=lambda: between).tick(300).start()
        await fleet.until(8 * 3_600)
        outcomes = await fleet.outcomes()
        # What came since the last time is still there; it was an hour ago, or half as much again.
        assert 3 <= len(outcomes) <= 25
        assert max(outcomes) == 8 * 3_600 - 300 or max(outcomes) == 8 * 3_600
        assert 5 <= between.asked.count("prune") <= 16

    virtually(scenario)
    assert "job tick: its history was not pruned: a password that could not be fetched" in caplog.text


def test_moments_are_in_utc() -> None:
    assert datetime.fromtimestamp(EPOCH, tz=UTC).isoformat() == "2025-10-09T00:00:00+00:00"


def test_what_was_added_is_told_as_it_will_be_run() -> None:
    jobs = Jobs(MemoryLeases())
    job = jobs.add(nothing, Every.of(60), name="sync", misfire_grace=5)
    assert (job.name, job.schedule, job.terms.misfire_grace) == ("sync", Every.of(60), 5)
    anchor = datetime(2026, 1, 1, 1, tzinfo=UTC)
    assert jobs.every(7 * 3_600, anchor=anchor)(other) is other
    assert jobs._jobs["other"].schedule == Every.of(7 * 3_600, anchor=anchor)
    assert jobs.names == ["other", "sync"]
