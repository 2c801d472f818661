"""Figures are conclusions; these tests give the observations by hand, so every conclusion can be checked."""

from __future__ import annotations

import math

import pytest

from bench.herd.measure import Burst, Latency, find_bursts, measure, percentile
from bench.herd.recording import CpuSample, DatabaseSample, Recording, Request


def samples(*steps: tuple[float, int, tuple[tuple[int, float], ...]]) -> list[DatabaseSample]:
    return [DatabaseSample(time, calls, running) for time, calls, running in steps]


TWO_BURSTS = samples(
    (10.0, 5, ()),
    (11.1, 5, ((101, 11.0), (102, 11.05))),
    (11.5, 6, ((102, 11.05),)),
    (12.0, 7, ()),
    (16.1, 7, ((101, 16.0),)),
    (17.0, 8, ()),
)


def test_calls_are_attributed_to_the_expiry_that_caused_them() -> None:
    assert find_bursts(TWO_BURSTS, quiet=2.0) == [Burst(11.0, 12.0, 2), Burst(16.0, 17.0, 1)]


def test_a_call_that_no_sample_caught_running_still_counts() -> None:
    unseen = samples(
        (10.0, 0, ()),
        (11.1, 0, ((1, 11.0),)),
        (11.6, 1, ()),
        (11.7, 3, ()),
        (20.1, 3, ((1, 20.0),)),
        (21.0, 4, ()),
    )
    assert [burst.queries for burst in find_bursts(unseen, quiet=2.0)] == [3, 1]


def test_a_burst_that_no_sample_saw_is_an_expiry_of_its_own() -> None:
    unseen = samples((10.0, 0, ()), (10.1, 0, ()), (10.6, 1, ()), (14.0, 1, ()), (14.5, 3, ()), (15.0, 3, ()))
    assert find_bursts(unseen, quiet=2.0) == [Burst(10.1, 10.6, 1), Burst(14.0, 14.5, 2)]


def test_the_calls_before_the_first_burst_belong_to_nobody() -> None:
    assert find_bursts(TWO_BURSTS, quiet=2.0)[0].queries == 2


def test_a_pause_shorter_than_quiet_is_the_same_burst() -> None:
    assert [burst.queries for burst in find_bursts(TWO_BURSTS, quiet=6.0)] == [3]


def test_a_long_call_holds_its_burst_together_although_shorter_ones_end_before() -> None:
    long = samples(
        (0.0, 0, ()),
        (1.1, 0, ((1, 1.0), (2, 1.0))),
        (5.0, 1, ((1, 1.0),)),
        (6.1, 1, ((1, 1.0), (2, 6.0))),
        (7.0, 3, ()),
    )
    assert [burst.queries for burst in find_bursts(long, quiet=2.0)] == [3]


def test_a_quiet_database_has_no_bursts() -> None:
    assert find_bursts(samples((1.0, 3, ()), (2.0, 3, ())), quiet=1.0) == []
    assert find_bursts([], quiet=1.0) == []


def recording() -> Recording:
    return Recording(
        mode="local",
        ramped=10.5,
        stopped=20.5,
        requests=[
            Request(9.0, 9.0, 200, 1),  # before all users were there
            Request(10.6, 0.01, 200, 1),
            Request(10.95, 2.5, 200, 2),  # found the entry missing
            Request(13.0, 0.02, 503, 3),
            Request(16.5, 0.5, 0, 0, "ConnectionError: refused"),
            Request(20.0, 0.03, 200, 4),
        ],
        database=TWO_BURSTS,
        cpu=[
            CpuSample(10.0, 1.0, 0.0, 0.9),  # before
            CpuSample(11.0, 0.25, 0.1, 0.0),
            CpuSample(12.0, 0.75, 0.1, 0.2),
            CpuSample(30.0, 1.0, 0.0, 0.9),  # after
        ],
        redis_commands=[9.0, 10.95, 11.2, 11.4, 15.0, 16.05],
    )


def test_only_requests_from_the_moment_all_users_were_there_are_measured() -> None:
    figures = measure(recording(), quiet=2.0)
    assert figures.requests == 5
    assert figures.requests_per_second == pytest.approx(0.5)
    assert figures.latency.max == 2.5


def test_after_an_expiry_counts_the_request_that_began_it_and_none_later_than_3_s() -> None:
    figures = measure(recording(), quiet=2.0)
    assert figures.latency_after_expiry.count == 3
    assert figures.latency_after_expiry.max == 2.5


def test_errors_are_refused_connections_and_bad_statuses() -> None:
    assert measure(recording(), quiet=2.0).errors == 2


def test_workers_are_counted_by_who_answered() -> None:
    assert measure(recording(), quiet=2.0).workers == 4


def test_slow_requests_are_a_share_of_all() -> None:
    assert measure(recording(), quiet=2.0).share_over_2s == pytest.approx(0.2)


def test_cpu_is_taken_from_the_measured_time_alone() -> None:
    figures = measure(recording(), quiet=2.0)
    assert (figures.db_cpu_peak, figures.db_cpu_mean) == (75.0, 50.0)
    assert (figures.others_cpu_peak, figures.others_cpu_mean) == (20.0, 10.0)


def test_expiries_are_told_as_seconds_of_the_measured_time() -> None:
    figures = measure(recording(), quiet=2.0)
    assert figures.expiries == [0.5, 5.5]
    assert figures.queries_per_expiry == [2, 1]
    assert figures.peak_concurrent_queries == 2


def test_an_expiry_before_all_users_were_there_or_at_the_very_end_is_left_out() -> None:
    late = recording()
    late.ramped = 11.2
    late.stopped = 18.5
    assert measure(late, quiet=2.0).queries_per_expiry == []


def test_redis_commands_are_counted_while_the_herd_lasts() -> None:
    figures = measure(recording(), quiet=2.0)
    assert figures.redis_commands_per_expiry == [3, 1]
    assert figures.redis_commands_per_request == pytest.approx(1.0)


def test_answers_of_one_call_for_all_are_counted_for_the_expiry_at_which_they_came() -> None:
    seen = recording()
    seen.requests += [
        Request(10.98, 0.4, 200, 1, collapsed=True),
        Request(11.1, 0.3, 200, 2, collapsed=True),
        Request(14.0, 0.3, 200, 2, collapsed=True),  # between two expiries
    ]
    assert measure(seen, quiet=2.0).collapsed_per_expiry == [2, 0]
    assert measure(recording(), quiet=2.0).collapsed_per_expiry == [0, 0]


def test_what_could_not_be_seen_is_none_and_not_zero() -> None:
    blind = recording()
    blind.redis_commands = None
    blind.cpu = [CpuSample(11.0, None, 0.1, 0.2)]
    figures = measure(blind, quiet=2.0)
    assert figures.redis_commands_per_expiry is None
    assert figures.redis_commands_per_request is None
    assert figures.db_cpu_peak is None
    assert figures.db_cpu_mean is None


def test_percentiles_lie_between_the_two_nearest_ranks() -> None:
    assert percentile([1.0, 2.0, 3.0, 4.0], 0.5) == 2.5
    assert percentile([7.0], 0.99) == 7.0
    assert percentile([0.0, 10.0], 0.95) == pytest.approx(9.5)


def test_no_requests_have_no_latency() -> None:
    empty = Latency.of([])
    assert empty.count == 0
    assert math.isnan(empty.p99)
