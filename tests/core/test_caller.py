"""What one caller gets when its own waiting time is over."""

from __future__ import annotations

from typing import Literal

import pytest

from stampede_guard.core.caller import LastResort, last_resort, patience_with_stale

Tried = Literal["untried", "denied", "over"]


def resort(
    *,
    computes: bool = False,
    bound: bool = False,
    stale: bool = False,
    limit: int = 1,
    fallback: Tried = "untried",
) -> LastResort:
    return last_resort(
        computes_itself=computes, bound=bound, has_stale=stale, fallback_limit=limit, fallback=fallback
    )


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("fallback", ["untried", "denied", "over"])
def test_a_caller_whose_own_call_is_computed_keeps_waiting(bound: bool, fallback: Tried) -> None:
    assert resort(computes=True, bound=bound, fallback=fallback) == "keep_waiting"


@pytest.mark.parametrize("bound", [False, True])
@pytest.mark.parametrize("fallback", ["untried", "denied", "over"])
def test_a_stale_value_comes_before_any_fallback(bound: bool, fallback: Tried) -> None:
    assert resort(bound=bound, stale=True, fallback=fallback) == "serve_stale"


@pytest.mark.parametrize("fallback", ["untried", "denied", "over"])
def test_a_computation_is_left_behind_for_a_stale_value_unless_it_lives_in_the_callers_request(
    fallback: Tried,
) -> None:
    assert resort(computes=True, stale=True, fallback=fallback) == "serve_stale"
    assert resort(computes=True, stale=True, bound=True, fallback=fallback) == "keep_waiting"


def test_a_fallback_is_tried_once() -> None:
    assert resort() == "try_fallback"
    assert resort(fallback="over") == "give_up"


def test_a_caller_that_was_denied_a_fallback_waits_for_that_of_somebody_else() -> None:
    assert resort(fallback="denied") == "wait_for_fallback"


def test_without_fallbacks_a_caller_gives_up_at_once() -> None:
    assert resort(limit=0) == "give_up"


def test_every_caller_comes_to_an_end_within_three_steps() -> None:
    # untried -> denied -> over is the longest way; each step is bounded by a time-out of the policy.
    answers = [resort(fallback=tried) for tried in ("untried", "denied", "over")]
    assert answers == ["try_fallback", "wait_for_fallback", "give_up"]


def patience(soft_timeout: float, *, wait_timeout: float = 30.0, flown: float = 0.0) -> float:
    return patience_with_stale(soft_timeout=soft_timeout, wait_timeout=wait_timeout, flown=flown)


def test_a_caller_with_a_stale_value_waits_for_its_soft_timeout_but_never_beyond_its_wait_timeout() -> None:
    assert patience(0.5) == 0.5
    assert patience(50.0) == 30.0
    assert patience(0.0) == 0.0


def test_what_the_flight_has_taken_already_is_taken_off() -> None:
    assert patience(0.5, flown=0.25) == 0.25
    assert patience(0.5, flown=0.5) == 0.0
    assert patience(0.5, flown=9.0) == 0.0
