"""What a history says in numbers."""

from __future__ import annotations

from stampede_guard.jobs.history.statistics import statistics
from stampede_guard.jobs.messages import PAUSED, Outcome, RunView


def run(slot: int, outcome: Outcome = "completed", *, took: float = 1.0, error: str = "") -> RunView:
    return RunView(
        job="j", slot=slot, run="r", outcome=outcome, started_at=10.0, finished_at=10.0 + took, error=error
    )


def test_durations_are_those_of_completed_runs() -> None:
    found = statistics([*(run(n, took=float(n)) for n in range(1, 21)), run(99, "failed", took=500.0)])
    assert (found.mean, found.p95, found.longest) == (10.5, 19.0, 20.0)


def test_a_skipped_slot_is_neither_success_nor_failure() -> None:
    found = statistics([run(1), run(2, "skipped"), run(3, "missed"), run(4, "abandoned"), run(5, "running")])
    assert found.success_rate == 1 / 3
    assert found.counts == {"completed": 1, "skipped": 1, "missed": 1, "abandoned": 1, "running": 1}


def test_slots_missed_through_a_pause_lower_no_success_rate() -> None:
    paused = [run(slot, "missed", error=PAUSED) for slot in (3, 4)]
    found = statistics([run(1), run(2), *paused])
    assert (found.success_rate, found.tried, found.missed_while_paused) == (1.0, 2, 2)
    assert found.counts["missed"] == 2
    assert statistics(paused).success_rate is None


def test_what_failed_counts_against_success_and_in_no_duration() -> None:
    found = statistics([run(1), run(2), run(3), run(4, "failed", took=9.0)])
    assert (found.success_rate, found.longest) == (0.75, 1.0)


def test_a_clock_that_was_set_back_makes_no_negative_duration() -> None:
    found = statistics([run(1, took=-5.0), run(2, took=0.5)])
    assert (found.mean, found.longest) == (0.25, 0.5)


def test_nothing_is_said_of_an_empty_history() -> None:
    found = statistics([])
    assert (found.success_rate, found.suggested_time_limit, found.failures) == (None, None, ())
    assert (found.mean, found.p95, found.longest) == (0.0, 0.0, 0.0)


def test_a_time_limit_is_two_to_three_times_the_longest_run() -> None:
    assert statistics(run(n, took=40.0) for n in range(5)).suggested_time_limit == 100.0
    assert statistics(run(n, took=700.0) for n in range(5)).suggested_time_limit == 1_800.0
    assert statistics(run(n, took=0.005) for n in range(5)).suggested_time_limit == 1.0
    assert statistics(run(n, took=40.0) for n in range(4)).suggested_time_limit is None


def test_errors_that_differ_in_numbers_are_one_pattern() -> None:
    runs = [run(n, "failed", error=f"TimeoutError: host 10.0.0.{n} after {n} s\nmore") for n in range(3)]
    found = statistics([*runs, run(9, "failed", error="HTTPError: 401"), run(10, "abandoned")])
    assert [(failure.pattern, failure.count, failure.latest_slot) for failure in found.failures] == [
        ("TimeoutError: host # after # s", 3, 2),
        ("HTTPError: 401", 1, 9),
        ("no error message", 1, 10),
    ]


def test_a_percentile_is_a_duration_that_was_and_no_less_than_it_says() -> None:
    assert statistics(run(n, took=float(n)) for n in range(1, 11)).p95 == 10.0
    assert statistics([run(1, took=3.0)]).p95 == 3.0


def test_a_time_limit_is_never_nothing() -> None:
    assert statistics(run(n, took=0.0) for n in range(5)).suggested_time_limit == 1.0


def test_failures_are_the_most_frequent_ones_each_with_when_it_was_last_seen() -> None:
    runs = [run(9, "failed", error="a"), run(3, "failed", error="a"), run(5, "failed", error="b")]
    found = statistics(runs, most_failures=1)
    assert [(failure.pattern, failure.count, failure.latest_slot) for failure in found.failures] == [
        ("a", 2, 9)
    ]
