"""A job without success is noticed by its own rhythm, on the back end's clock."""

from __future__ import annotations

from typing import Any

from stampede_guard.jobs.history.deadman import deserted, health_of, overdue
from stampede_guard.jobs.messages import JobView


def view(name: str = "shop:nightly", **changes: Any) -> JobView:
    known: dict[str, Any] = {
        "job": name,
        "schedule": "0 3 * * * UTC",
        "fingerprint": "f",
        "rhythm": 100.0,
        "version": 0,
        "registered_at": 1_000.0,
        "scheduled_at": 1_000.0,
        "at": 1_000.0,
    }
    return JobView(**{**known, **changes})


def test_a_job_is_overdue_after_twice_its_rhythm_without_success() -> None:
    assert not health_of(view(last_success_at=1_000.0, at=1_200.0)).overdue
    assert health_of(view(last_success_at=1_000.0, at=1_200.1)).overdue


def test_a_job_that_never_succeeded_counts_from_its_registration() -> None:
    assert not health_of(view(at=1_199.0)).overdue
    late = health_of(view(at=1_201.0, last_error="401"))
    assert (late.overdue, late.ever_succeeded, late.last_error) == (True, False, "401")
    assert str(late) == "shop:nightly has never succeeded, for 201 s (allowed: 200 s)"


def test_a_failure_does_not_count_as_success() -> None:
    assert health_of(view(last_success_at=1_000.0, last_failure_at=1_250.0, at=1_300.0)).overdue
    assert health_of(view(last_success_at=1_000.0, last_error="401", at=1_100.0)).last_error == ""


def test_a_job_without_a_rhythm_is_never_overdue() -> None:
    assert not health_of(view(rhythm=0.0, at=9_999_999.0)).overdue


def test_a_paused_job_is_not_overdue_and_after_the_resume_it_has_its_whole_time() -> None:
    assert not health_of(view(last_success_at=1_000.0, paused_at=1_100.0, at=9_000.0)).overdue
    assert not health_of(view(last_success_at=1_000.0, resumed_at=8_900.0, at=9_100.0)).overdue
    assert health_of(view(last_success_at=1_000.0, resumed_at=8_900.0, at=9_101.0)).overdue


def test_the_workers_of_a_paused_job_are_not_gone() -> None:
    assert deserted(view(at=9_000.0), misfire_grace=60.0)
    assert not deserted(view(at=9_000.0, paused_at=1_001.0), misfire_grace=60.0)
    assert not deserted(view(at=9_000.0, resumed_at=8_900.0), misfire_grace=60.0)


def test_a_clock_that_went_back_alarms_nobody() -> None:
    assert health_of(view(last_success_at=5_000.0, at=1_000.0)).since == 0.0


def test_a_success_counts_also_where_the_clock_went_back_since_the_registration() -> None:
    health = health_of(view(registered_at=5_000.0, last_success_at=1_000.0, at=1_300.0))
    assert (health.overdue, health.since) == (True, 300.0)


def test_a_schedule_is_deserted_when_no_slot_of_it_had_an_outcome_for_as_long_as_makes_it_overdue() -> None:
    assert not deserted(view(at=1_000.0 + 210.0), misfire_grace=10.0)
    assert deserted(view(at=1_000.0 + 210.1), misfire_grace=10.0)
    assert not deserted(view(at=1_000.0 + 300.0, last_slot=1_100_000), misfire_grace=10.0)
    assert deserted(view(at=1_000.0 + 211.0, last_slot=500_000), misfire_grace=10.0)
    assert not deserted(view(at=9_000.0, rhythm=0.0), misfire_grace=10.0)


def test_the_worst_by_its_own_rhythm_comes_first() -> None:
    slow = view("slow", rhythm=1_000.0, last_success_at=1_000.0, at=4_000.0)
    fast = view("fast", rhythm=10.0, last_success_at=3_900.0, at=4_000.0)
    well = view("well", last_success_at=3_990.0, at=4_000.0)
    assert [health.job for health in overdue([slow, well, fast])] == ["fast", "slow"]
