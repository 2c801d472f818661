"""Old and new workers at once, with different schedules of one version: one counts, and none stands still for long."""

from __future__ import annotations

import asyncio

import pytest

from stampede_guard.errors import StoreUnavailable
from stampede_guard.jobs import Jobs
from stampede_guard.jobs.backends.memory import runs_beside
from stampede_guard.jobs.messages import Registration
from stampede_guard.leases import Leases, PostgresLeases, RedisLeases
from tests.jobs.fleet import EPOCH, Fleet, Worker, virtually
from tests.jobs.test_races import Between
from tests.support.gate import until

NIGHT = 43_200
DAY = 86_400


def outdated(worker: Worker) -> str:
    return worker.jobs._followers["tick"][0].outdated


async def old_pod_again(fleet: Fleet, *, at: float = 100) -> tuple[list[Worker], Worker]:
    """Two new pods with a nightly job, and an old one that was started again after them; its schedule counts."""
    new = [fleet.worker().tick(NIGHT).start() for _ in range(2)]
    await fleet.until(at)
    old = fleet.worker().tick(DAY).start()
    await fleet.until(at + 100)
    assert [outdated(worker) for worker in new] == [f"every {DAY} s"] * 2
    return new, old


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_a_nightly_schedule_that_old_pods_left_is_taken_back_within_five_minutes(
    how: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(fleet: Fleet) -> None:
        new, old = await old_pod_again(fleet)
        if how == "stop":
            await old.stop()
        else:
            old.kill()
        await fleet.until(200 + 300)
        assert [outdated(worker) for worker in new] == ["", ""]
        await fleet.until(NIGHT + 60)
        assert await fleet.outcomes() == {NIGHT: "completed"}

    virtually(scenario)
    told = [record for record in caplog.records if "no worker follows the schedule" in record.getMessage()]
    assert len(told) == 1, "one took it over"


def test_two_deployments_that_are_both_there_never_take_it_from_each_other() -> None:
    async def scenario(fleet: Fleet) -> None:
        _, old = await old_pod_again(fleet)
        view = await old.jobs.view("tick")
        assert view is not None
        await fleet.until(7 * DAY + 60)
        later = await old.jobs.view("tick")
        assert later is not None and later.scheduled_at == view.scheduled_at
        assert await fleet.outcomes() == dict.fromkeys(range(DAY, 7 * DAY + 1, DAY), "completed")

    virtually(scenario)


@pytest.mark.parametrize("step", [-7_200.0, 7_200.0])
def test_a_back_end_whose_clock_is_set_does_not_make_a_schedule_look_left(step: float) -> None:
    async def scenario(fleet: Fleet) -> None:
        new, old = await old_pod_again(fleet)
        fleet.step = step
        await asyncio.sleep(1_000)
        assert outdated(old) == ""
        assert [outdated(worker) for worker in new] == [f"every {DAY} s"] * 2
        old.kill()
        # Set back, the last sign is of the new time already: nothing waits for the old one to come again.
        await asyncio.sleep(300)
        assert [outdated(worker) for worker in new] == ["", ""]

    virtually(scenario)


@pytest.mark.parametrize("seed", range(10))
def test_a_back_end_that_was_away_for_all_does_not_make_a_schedule_look_left(seed: int) -> None:
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))

        async def away() -> None:
            raise StoreUnavailable("gone")

        new = [fleet.worker(runs=lambda: between).tick(NIGHT).start() for _ in range(3)]
        await fleet.until(10)
        old = fleet.worker(runs=lambda: between).tick(DAY).start()
        await fleet.until(100)
        between.before = dict.fromkeys(("follow", "take_over", "sweep"), away)
        await fleet.until(4_000 + seed)
        between.before.clear()
        await fleet.until(5_000)
        assert outdated(old) == ""
        assert [outdated(worker) for worker in new] == [f"every {DAY} s"] * 3

    virtually(scenario, seed=seed)


def test_a_worker_that_was_cut_off_for_a_while_keeps_its_schedule_and_for_long_does_not_take_it_back() -> (
    None
):
    async def scenario(fleet: Fleet) -> None:
        between = Between(runs_beside(fleet.rows))

        async def away() -> None:
            raise StoreUnavailable("gone")

        new = fleet.worker().tick(NIGHT).start()
        await fleet.until(10)
        old = fleet.worker(runs=lambda: between).tick(DAY).start()
        await fleet.until(100)
        between.before["follow"] = away
        await fleet.until(100 + 120)
        between.before.clear()
        await fleet.until(400)
        assert (outdated(old), outdated(new)) == ("", f"every {DAY} s")
        between.before["follow"] = away
        await fleet.until(800)
        between.before.clear()
        await fleet.until(2_000)
        assert (outdated(old), outdated(new)) == (f"every {NIGHT} s", "")

    virtually(scenario)


def test_what_nobody_followed_meanwhile_is_run_or_told_as_missed() -> None:
    async def scenario(fleet: Fleet) -> None:
        new = fleet.worker().tick(60, misfire_grace=100).start()
        await fleet.until(70)
        old = fleet.worker().tick(DAY).start()
        await fleet.until(130)
        old.kill()
        await fleet.until(500)
        assert outdated(new) == ""
        outcomes = await fleet.outcomes()
        assert list(outcomes) == [60, *range(120, 481, 60)]
        assert (outcomes[120], outcomes[180], outcomes[480]) == ("missed", "missed", "completed")

    virtually(scenario)


def test_slots_before_the_last_that_the_others_ran_are_nobodys() -> None:
    async def scenario(fleet: Fleet) -> None:
        new = fleet.worker().tick(15).start()
        await fleet.until(20)
        old = fleet.worker().tick(10).start()
        await fleet.until(152)
        view = await new.jobs.view("tick")
        assert view is not None and 105 < view.seen_at - EPOCH < 115
        old.kill()
        await fleet.until(500)
        assert outdated(new) == ""
        outcomes = await fleet.outcomes()
        assert {*range(120, 151, 10), 165, 180, 195} <= outcomes.keys()
        assert 135 not in outcomes

    virtually(scenario)


def test_a_greater_version_whose_workers_are_gone_stands_in_nobodys_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario(fleet: Fleet) -> None:
        new = fleet.worker(version=2).tick(DAY).start()
        await fleet.until(100)
        # The deployment is rolled back.
        older = fleet.worker(version=1).tick(NIGHT).start()
        await fleet.until(1_000)
        assert (outdated(new), outdated(older)) == ("", f"every {DAY} s")
        await new.stop()
        await fleet.until(1_300)
        assert outdated(older) == ""
        # And forward again.
        fleet.worker(version=2).tick(DAY).start()
        await fleet.until(1_400)
        assert outdated(older) == f"every {DAY} s"

    virtually(scenario)


def test_who_seldom_looks_after_its_job_is_given_the_time_that_it_said() -> None:
    async def scenario(fleet: Fleet) -> None:
        hasty = fleet.worker().tick(NIGHT, lease_ttl=6).start()
        await fleet.until(10)
        slow = fleet.worker().tick(DAY, lease_ttl=3_600).start()
        await fleet.until(20_000)
        assert (outdated(slow), outdated(hasty)) == ("", f"every {DAY} s")
        slow.kill()
        await fleet.until(20_000 + 14_000)
        assert outdated(hasty) == ""

    virtually(scenario)


def test_who_seldom_looks_after_its_job_looks_more_often_while_it_waits_for_others_to_go() -> None:
    async def scenario(fleet: Fleet) -> None:
        slow = fleet.worker().tick(DAY, lease_ttl=3_600).start()
        await fleet.until(10)
        hasty = fleet.worker().tick(NIGHT, lease_ttl=6).start()
        # It learns of the other at its next look.
        await fleet.until(6_000)
        assert outdated(slow) == f"every {NIGHT} s"
        hasty.kill()
        await fleet.until(6_000 + 40)
        assert outdated(slow) == ""

    virtually(scenario)


def test_that_somebody_follows_or_takes_over_is_no_success_for_the_dead_man_signal() -> None:
    async def scenario(fleet: Fleet) -> None:
        fails = {"takes": 50, "time_limit": 1}
        new = fleet.worker().tick(60, **fails).start()
        await fleet.until(61)
        old = fleet.worker().tick(90, **fails).start()
        await fleet.until(500)
        view = await new.jobs.view("tick")
        assert view is not None and view.at - view.seen_at < 60
        (health,) = await new.jobs.health()
        assert (health.overdue, round(health.since), health.allowed) == (True, 500, 180)
        await old.stop()
        await fleet.until(1_000)
        assert outdated(new) == ""
        (health,) = await new.jobs.health()
        assert (health.overdue, round(health.since), health.allowed) == (True, 1_000, 120)

    virtually(scenario)


def test_a_schedule_whose_workers_give_no_signs_is_left_when_its_slots_have_no_outcome_any_more() -> None:
    async def scenario(fleet: Fleet) -> None:
        new = fleet.worker().tick(15).start()
        await fleet.until(1)
        theirs = Registration(job="shop:tick", schedule="theirs", fingerprint="theirs", rhythm=10.0)
        await runs_beside(fleet.rows).register(theirs)
        await fleet.until(60)
        await runs_beside(fleet.rows).record(
            theirs.job, slots=[int(fleet.time() * 1000) - 1], outcome="skipped", error=""
        )
        # Twice its rhythm and misfire_grace, 60 s, from then on; and it is looked at now and then.
        await fleet.until(60 + 80)
        assert outdated(new) == "theirs"
        await fleet.until(60 + 80 + 46)
        assert outdated(new) == ""

    virtually(scenario)


def test_a_greater_version_without_signs_is_left_to_its_workers(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(fleet: Fleet) -> None:
        old = fleet.worker().tick(15).start()
        await fleet.until(1)
        theirs = Registration(
            job="shop:tick", schedule="theirs", fingerprint="theirs", rhythm=10.0, version=3
        )
        await runs_beside(fleet.rows).register(theirs)
        await fleet.until(1_000)
        assert outdated(old) == "theirs"

    virtually(scenario)
    assert "no worker follows the schedule" not in caplog.text


@pytest.mark.parametrize("kind", ["postgres", "redis"])
async def test_on_a_server_a_schedule_that_was_left_is_taken_back(
    kind: str, request: pytest.FixtureRequest, namespace: str
) -> None:
    def made(seconds: float) -> tuple[Leases, Jobs]:
        leases: Leases
        if kind == "postgres":
            leases = PostgresLeases.from_url(request.getfixturevalue("postgres_url"), namespace=namespace)
        else:
            url = request.getfixturevalue("valkey_url")
            leases = RedisLeases.from_url(url, namespace=namespace, restart="trust")
        jobs = Jobs(leases)

        @jobs.every(seconds, lease_ttl=0.6)
        async def tick() -> None: ...

        return leases, jobs

    (new_leases, new), (old_leases, old) = made(NIGHT), made(DAY)
    async with new_leases, old_leases:
        if isinstance(new_leases, PostgresLeases):
            await new_leases.create_schema()
        async with new:
            follower, _ = new._followers["tick"]
            await asyncio.wait_for(follower.looked.wait(), 60)
            async with old:
                await until(lambda: follower.outdated == f"every {DAY} s")
            await until(lambda: follower.outdated == "")
            view = await new.view("tick")
            assert view is not None and view.schedule == f"every {NIGHT} s"
