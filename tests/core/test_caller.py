"""What one caller gets when its own waiting time is over."""

from __future__ import annotations

from typing import Literal

import pytest

from stampede_guard.core.caller import LastResort, last_resort

Tried = Literal["untried", "denied", "over"]


def resort(
    *, computes: bool = False, stale: bool = False, limit: int = 1, fallback: Tried = "untried"
) -> LastResort:
    return last_resort(computes_itself=computes, has_stale=stale, fallback_limit=limit, fallback=fallback)


@pytest.mark.parametrize("stale", [False, True])
@pytest.mark.parametrize("fallback", ["untried", "denied", "over"])
def test_a_caller_whose_own_call_is_computed_keeps_waiting(stale: bool, fallback: Tried) -> None:
    assert resort(computes=True, stale=stale, fallback=fallback) == "keep_waiting"


@pytest.mark.parametrize("fallback", ["untried", "denied", "over"])
def test_a_stale_value_comes_before_any_fallback(fallback: Tried) -> None:
    assert resort(stale=True, fallback=fallback) == "serve_stale"


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
