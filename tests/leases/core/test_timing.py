"""Durations that contradict each other are refused where they are given."""

from __future__ import annotations

from typing import Any

import pytest

from stampede_guard.errors import PolicyError
from stampede_guard.leases.core.timing import Timing, job_timing, leader_timing

GOOD: dict[str, Any] = {"lease_ttl": 60.0, "renew_every": 20.0, "request_timeout": 3.0, "grace": 5.0}


def test_the_defaults_are_those_of_the_documentation() -> None:
    job, leader = job_timing(), leader_timing()
    assert (job.lease_ttl, job.renew_every, job.request_timeout, job.grace) == (60, 20, 3, 5)
    assert (leader.lease_ttl, leader.renew_every, leader.request_timeout, leader.grace) == (15, 5, 2, 1.25)
    assert job.margin == leader.margin == 0.25 and job.poll_every == leader.poll_every == 1
    assert job.rho == leader.rho == 0.01


@pytest.mark.parametrize("lease_ttl", [0.2, 0.5, 1, 5, 15, 60, 3_600, 86_400])
def test_a_lease_of_any_length_has_durations_that_fit(lease_ttl: float) -> None:
    for timing in (job_timing(lease_ttl), leader_timing(lease_ttl)):
        assert timing.place < lease_ttl or timing.place == lease_ttl
        assert timing.trusted < lease_ttl * 0.99


def test_belief_ends_before_the_lease_does_with_clocks_that_differ_by_rho() -> None:
    timing = Timing(**GOOD)
    slowest = timing.trusted / (1 - timing.rho)
    assert slowest < timing.lease_ttl


@pytest.mark.parametrize(
    ("field", "value", "rule"),
    [
        ("renew_every", 60.0, "below lease_ttl"),
        ("renew_every", 61.0, "below lease_ttl"),
        ("grace", 40.0, "renew_every + request_timeout + grace"),
        ("request_timeout", 0.0, "greater than 0"),
        ("request_timeout", -1.0, "greater than 0"),
        ("lease_ttl", 0.1, "at least 0.2"),
        ("lease_ttl", float("inf"), "number of seconds"),
        ("lease_ttl", float("nan"), "number of seconds"),
        ("lease_ttl", "60", "number of seconds"),
        ("grace", True, "number of seconds"),
        ("rho", 0.5, "rate"),
    ],
)
def test_a_duration_that_cannot_be_is_named_with_its_rule(field: str, value: object, rule: str) -> None:
    with pytest.raises(PolicyError, match=field) as raised:
        Timing(**(GOOD | {field: value}))
    assert rule in str(raised.value)


def test_a_lease_ttl_that_is_no_number_is_named_before_it_is_used() -> None:
    with pytest.raises(PolicyError, match="lease_ttl"):
        job_timing("60")  # type: ignore[arg-type]


def test_who_waits_asks_when_the_lease_ends_and_not_all_at_once() -> None:
    timing = leader_timing()
    assert timing.next_question(0.4, 0, 0.0) == pytest.approx(0.4)
    assert timing.next_question(0.4, 0, 0.5) > timing.next_question(0.4, 0, 0.1)
    assert timing.next_question(100, 0, 0.0) == timing.poll_every


def test_who_is_far_behind_asks_less_often_and_still_keeps_its_place() -> None:
    timing = leader_timing()
    assert timing.next_question(100, 9, 0.0) > timing.next_question(100, 1, 0.0)
    for ahead in range(-1, 50):
        assert 2 * timing.next_question(1e9, ahead, 1.0) <= timing.place


def test_the_next_in_line_asks_at_once_when_woken() -> None:
    timing = leader_timing()
    assert timing.after_waking(0, 0.9) == 0
    assert 0 < timing.after_waking(1, 0.5) < timing.after_waking(2, 0.5) < timing.poll_every


def test_the_bounds_of_a_question_are_in_proportion_to_the_leases_own_rhythm() -> None:
    quick = job_timing(1.5)
    assert quick.poll_every == pytest.approx(0.1)
    assert quick.next_question(0.01, 0, 1.0) == pytest.approx(0.01 + 0.25 * 0.1)
    rare = Timing(lease_ttl=10, renew_every=2, request_timeout=1, grace=1, poll_every=5)
    # A lease's time is the longest that a place holds; half of it is left when one question was lost.
    assert rare.place == 10 and rare.next_question(1e9, 9, 1.0) == 5
