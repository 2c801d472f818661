"""What one caller gets when its own waiting time is over."""

from __future__ import annotations

from math import inf
from typing import Literal

import pytest

from stampede_guard.core import events as on
from stampede_guard.core.aboard import Aboard
from stampede_guard.core.asks import Granted
from stampede_guard.core.caller import (
    LastResort,
    computes_for_one,
    last_resort,
    may_be_replaced,
    may_join,
    seconds_to_wait,
    store_deadline,
)
from stampede_guard.core.flight import decide
from stampede_guard.core.states import Asking, Computing, FlightState
from stampede_guard.policy import Policy

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
    policy = Policy(soft_timeout=soft_timeout, stale_ttl=60.0, wait_timeout=wait_timeout)
    return seconds_to_wait("fresh_value", policy, waited=flown)


def test_a_caller_with_a_stale_value_waits_for_its_soft_timeout_but_never_beyond_its_wait_timeout() -> None:
    assert patience(0.5) == 0.5
    assert patience(50.0) == 30.0
    assert patience(0.0) == 0.0


def test_what_the_flight_has_taken_already_is_taken_off() -> None:
    assert patience(0.5, flown=0.25) == 0.25
    assert patience(0.5, flown=0.5) == 0.0
    assert patience(0.5, flown=9.0) == 0.0


def test_each_thing_that_is_waited_for_has_its_time_out_in_the_policy() -> None:
    policy = Policy(wait_timeout=3.0, compute_timeout=5.0, fallback_timeout=7.0)
    assert seconds_to_wait("value", policy) == seconds_to_wait("turn", policy) == 3.0
    assert seconds_to_wait("own_computation", policy) == 5.0
    assert seconds_to_wait("fallback", policy) == seconds_to_wait("another_fallback", policy) == 7.0
    assert seconds_to_wait("value", policy, waited=2.0) == 1.0


def test_only_a_caller_that_has_waited_a_whole_deadline_cuts_the_next_one_short() -> None:
    assert store_deadline(late=False) is None
    late = store_deadline(late=True)
    assert late is not None and late < 0.5


# --- joining without a read -----------------------------------------------------------------------

COMPUTING = FlightState(Computing(Granted(7, "e")), open_until=9.0)


def test_a_flight_in_its_first_round_is_open_to_callers_that_have_not_read() -> None:
    assert may_join(FlightState(Asking()), 1.0, shares_uncached=True)
    assert may_join(COMPUTING, 9.0, shares_uncached=False)


@pytest.mark.parametrize(
    "state",
    [
        COMPUTING._replace(serves_old=True),
        COMPUTING._replace(served=True),
        COMPUTING._replace(open_until=8.9),
        COMPUTING._replace(kind="alone"),
    ],
)
def test_a_caller_reads_first_where_the_store_may_know_better(state: FlightState) -> None:
    assert not may_join(state, 9.0, shares_uncached=True)


def test_a_computation_that_lost_its_lease_or_is_slow_is_closed_until_the_next_one() -> None:
    policy = Policy(lease_ttl=3)
    begun, _ = decide(COMPUTING._replace(open_until=inf), on.ComputationBegan(9.0), policy)
    assert [may_join(begun, now, shares_uncached=True) for now in (9.0, 12.0, 12.1)] == [True, True, False]
    lapsed, _ = decide(begun, on.RenewalRefused(), policy)
    assert not may_join(lapsed, 9.0, shares_uncached=True)
    # Another passenger takes over, and its call is begun again: the lease is still lost.
    handed_over, _ = decide(lapsed, on.ComputationBegan(10.0), policy)
    assert not may_join(handed_over, 10.0, shares_uncached=True)
    asking, _ = decide(lapsed, on.Abandoned(), policy)
    asking, _ = decide(asking, on.Delivered(Aboard(1, 1, waits=True)), policy)
    computing, _ = decide(
        asking, on.StoreAnswered(Granted(8, "e"), Aboard(1, 1, waits=True), 11.0, 0.5), policy
    )
    assert may_join(computing, 11.0, shares_uncached=True)


def test_a_value_that_may_be_private_is_computed_for_one_caller() -> None:
    state = FlightState(Computing(Granted(7, "e", leased=False)))
    assert computes_for_one(state, shares_uncached=False)
    assert not may_join(state, 1.0, shares_uncached=False)
    assert not computes_for_one(state, shares_uncached=True)
    assert not computes_for_one(FlightState(Asking()), shares_uncached=False)


@pytest.mark.parametrize(
    ("state", "replaced"),
    [
        (FlightState(Asking(), newer_than=5, overtakes=True), [1, 5, 6, 9]),
        (FlightState(Asking(), newer_than=5), [1, 5]),
        (FlightState(Computing(Granted(9, "epoch")), newer_than=5), [1, 5, 6]),
        (FlightState(Computing(None), newer_than=5), [1, 5]),
    ],
)
def test_what_a_refresh_shall_replace_is_from_before_the_stores_answer(
    state: FlightState, replaced: list[int]
) -> None:
    assert [token for token in (1, 5, 6, 9) if may_be_replaced(state, token)] == replaced
