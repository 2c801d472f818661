"""What a table of jobs says, from what the back end keeps."""

from __future__ import annotations

from typing import Any

from stampede_guard.jobs.messages import JobView, Outcome, RunView
from stampede_guard.jobs.schedules.schedule import Every, fingerprint
from stampede_guard.leases.messages import Owner
from stampede_guard.ops.fleet.jobs import attempts, job_line

SCHEDULE = Every.of(300)


def view(**changes: Any) -> JobView:
    known: dict[str, Any] = {
        "job": "shop:sync",
        "schedule": SCHEDULE.text,
        "fingerprint": fingerprint(SCHEDULE),
        "rhythm": 300.0,
        "version": 0,
        "registered_at": 600.0,
        "scheduled_at": 600.0,
        "at": 1_000.0,
    }
    return JobView(**{**known, **changes})


def run(slot: int, outcome: Outcome, **changes: Any) -> RunView:
    return RunView(job="shop:sync", slot=slot * 1000, run="r", outcome=outcome, **changes)


def test_the_next_slot_and_the_last_outcomes_are_told() -> None:
    worker = Owner(process="p", pod="web-1", pid=7)
    runs = [run(900, "running", owner=worker), run(600, "failed", owner=worker), run(300, "completed")]
    line = job_line(view(running=(900_000,)), runs, prefix="shop:")
    assert (line.name, line.next_slot, line.running) == ("sync", 1_200.0, 1)
    assert (line.owners, line.last) == (("web-1/7",), ("failed", "completed"))


def test_a_schedule_of_another_scheduler_has_no_next_slot() -> None:
    assert job_line(view(schedule="interval[0:05:00]"), [], prefix="shop:").next_slot is None


def test_it_tells_by_how_much_a_job_is_overdue_and_never_if_it_is_paused() -> None:
    assert job_line(view(at=1_201.0), [], prefix="").overdue_by == 1.0
    paused = job_line(view(at=9_000.0, paused_at=700.0, paused_by="Ada"), [], prefix="")
    assert (paused.overdue_by, paused.paused_by) == (0.0, "Ada")


def test_a_run_has_a_duration_once_it_has_begun_and_ended() -> None:
    found = attempts(
        [
            run(900, "running", started_at=900.5),
            run(600, "completed", started_at=600.5, finished_at=602.0),
            run(300, "missed", finished_at=360.0),
        ]
    )
    assert [one.seconds for one in found] == [None, 1.5, None]
