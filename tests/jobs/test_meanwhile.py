"""What comes over a job while a run of it goes on, and what a run does to the program that it runs in."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from stampede_guard.errors import Misuse
from stampede_guard.jobs import Jobs, Run
from stampede_guard.jobs.schedules.schedule import Every
from stampede_guard.leases import MemoryLeases
from tests.jobs.fleet import Fleet, virtually
from tests.jobs.test_table import Edited, row

ROOT = Path(__file__).resolve().parents[2]


def test_two_objects_of_jobs_in_one_process_run_each_slot_once() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker().tick(10, takes=1.0).start()
        (job,) = worker.jobs._jobs.values()
        async with Jobs(worker.leases) as others:
            others.add(job.function, Every.of(10), name="tick")
            others.every(20, name="other")(nothing)
            await fleet.until(65)
            assert fleet.slots() == dict.fromkeys(range(10, 61, 10), 1)
            assert await fleet.outcomes() == dict.fromkeys(range(10, 61, 10), "completed")
            assert list(await fleet.outcomes("other")) == [20, 40, 60]
        # The other goes on.
        await fleet.until(75)
        assert (await fleet.outcomes())[70] == "completed"

    virtually(scenario)


async def nothing() -> None: ...


async def something_else() -> None: ...


@pytest.mark.parametrize("started", [False, True])
def test_two_functions_under_one_name_are_refused_across_objects_of_jobs_too(started: bool) -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker()
        worker.jobs.every(10, name="sync")(nothing)
        worker.start()
        others = Jobs(worker.leases)
        if started:
            others.start()
        with pytest.raises(
            Misuse, match=r"two functions have the job name 'sync': .*nothing and .*something_else"
        ):
            others.every(10, name="sync")(something_else)
            others.start()
        await others.stop()
        await worker.jobs.stop()
        # With the first stopped there is one.
        again = Jobs(worker.leases)
        again.every(10, name="sync")(something_else)
        async with again:
            pass

    virtually(scenario)


def test_a_job_that_is_removed_while_it_runs_ends_its_run_and_begins_no_other() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker().tick(10, takes=25.0).start()
        await fleet.until(11)
        await worker.jobs.remove("tick")
        assert worker.jobs.names == []
        await fleet.until(100)
        assert await fleet.outcomes() == {10: "completed"}

    virtually(scenario)


def test_a_job_that_is_added_anew_while_it_runs_ends_its_run_and_follows_the_new_schedule() -> None:
    async def scenario(fleet: Fleet) -> None:
        worker = fleet.worker().tick(10, takes=22.0, overlap="queue").start()
        await fleet.until(11)
        (job,) = worker.jobs._jobs.values()
        worker.jobs.add(job.function, Every.of(30), name="tick", overlap="queue")
        await fleet.until(59)
        history = await fleet.history()
        assert {slot: run.outcome for slot, run in sorted(history.items())} == {
            10: "completed",
            30: "completed",
        }
        # Never two at a time: the second waited for the first.
        assert history[30].finished_at - history[10].finished_at >= 22
        assert fleet.slots() == {10: 1, 30: 1}

    virtually(scenario)


@pytest.mark.parametrize("how", ["edited", "switched off"])
def test_a_row_that_changes_while_its_run_goes_on_ends_that_as_it_began(how: str) -> None:
    async def scenario(fleet: Fleet) -> None:
        edited, seen = Edited(row(1, "* * * * *", repository="a")), []

        async def sync(run: Run, repository: str) -> None:
            await asyncio.sleep(30)
            seen.append((run.slot.minute, repository))

        for _ in range(2):
            worker = fleet.worker()
            worker.jobs.table({"sync": sync}, rows=edited, poll_every=5)
            worker.start()
        await fleet.until(61)
        edited.rows = [row(1, "*/2 * * * *", repository="b")] if how == "edited" else []
        await fleet.until(170)
        expected = [(1, "a"), (2, "b")] if how == "edited" else [(1, "a")]
        assert seen == expected
        assert [(id, slot.minute) for id, slot in edited.noted] == [(1, minute) for minute, _ in expected]
        assert set((await fleet.outcomes("sync#1")).values()) == {"completed"}

    virtually(scenario)


@pytest.mark.parametrize("returns", [True, False])
def test_a_body_that_blocks_the_event_loop_past_its_lease_is_not_believed(returns: bool) -> None:
    async def scenario(fleet: Fleet) -> None:
        worker, went_on = fleet.worker(), []

        @worker.jobs.every(100, lease_ttl=6)
        async def tick() -> None:
            # As time.sleep() does it: nobody's timers are called meanwhile.
            fleet.loop.virtual.now += 30
            if not returns:
                await asyncio.sleep(1)
                went_on.append(True)

        worker.start()
        await fleet.until(135)
        run = (await fleet.history())[100]
        # What nobody protected is no success, whether or not somebody noticed before it ended.
        assert run.outcome in ("failed", "abandoned")
        assert run.error.startswith(("LeaseLost", "the worker vanished"))
        assert went_on == []
        await fleet.until(205)
        assert await fleet.history()

    virtually(scenario)


PROGRAM = """
import asyncio, sys
from stampede_guard.jobs import Jobs
from stampede_guard.leases import MemoryLeases

leases = MemoryLeases()
jobs = Jobs(leases)

@jobs.every(3_600)
async def fatal(run):
    run.report(rows=3)
    raise {error}

async def main():
    async with jobs:
        await jobs.run_now("fatal")

try:
    asyncio.run(main())
finally:
    async def look():
        (run,) = await jobs.history("fatal")
        print(run.outcome, run.error, run.counters)
    asyncio.run(look())
"""


@pytest.mark.parametrize(
    ("error", "code", "told"),
    [("SystemExit(3)", 3, "SystemExit: 3"), ("KeyboardInterrupt('now')", -2, "KeyboardInterrupt: now")],
)
def test_what_ends_the_program_ends_it_once_the_outcome_is_written_down(
    error: str, code: int, told: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(error=error)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == f"failed {told} {{'rows': 3}}\n", done.stderr
    assert done.returncode in (code, 130)
    assert "because of a bug" not in done.stderr


def test_a_loop_that_ended_without_a_stop_is_no_reason_not_to_start_in_the_next() -> None:
    async def main(jobs: Jobs, *, stopping: bool) -> Any:
        jobs.start()
        ending = await jobs.run_now("sync")
        if stopping:
            await jobs.stop()
        return ending.outcome

    jobs = Jobs(MemoryLeases())
    jobs.every(3_600, name="sync")(nothing)
    outcomes = [asyncio.run(main(jobs, stopping=stopping)) for stopping in (False, True, False, True)]
    assert outcomes == ["completed"] * 4


def test_one_object_of_jobs_serves_the_loops_of_one_program_in_turn() -> None:
    seen: list[datetime] = []

    async def main(jobs: Jobs) -> Any:
        async with jobs:
            return (await jobs.run_now("sync")).outcome

    jobs = Jobs(MemoryLeases())

    @jobs.every(3_600)
    async def sync(run: Run) -> None:
        seen.append(run.slot)

    assert [asyncio.run(main(jobs)) for _ in range(2)] == ["completed", "completed"]
    assert len(seen) == 2
