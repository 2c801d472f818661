"""What a flight does next, case by case."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from stampede_guard.core.entry import Reading
from stampede_guard.core.flight import (
    ASK_TRIES,
    PUBLISH_TRIES,
    Abandoned,
    Answered,
    Ask,
    Asking,
    Compute,
    Computed,
    Computing,
    Deliver,
    Delivered,
    Delivering,
    Failed,
    Heard,
    Invalidated,
    Keep,
    Land,
    Landed,
    LookAgain,
    Outcome,
    Publish,
    PublishAnswered,
    Publishing,
    Release,
    StoreFailed,
    Wait,
    Waiting,
    begin,
    decide,
    poll_after,
)
from stampede_guard.core.scripts import Answer, FailedRecently, Found, Granted, Held, Message, Uncacheable
from stampede_guard.policy import Policy

POLICY = Policy()
GRANT = Granted(7, "e")
READING = Reading(b"v", 7, 1000, 0, 900)
OWN = Outcome("value", b"v", own=True)


def answered(answer: Answer, *, wanted: bool = True) -> Answered:
    return Answered(answer, 0.5, wanted)


# --- beginning and asking -------------------------------------------------------------------------


def test_a_flight_begins_by_asking_or_computes_alone_when_the_store_is_away() -> None:
    assert begin(away=False) == (Asking(), Ask())
    assert begin(away=True) == (Computing(None), Compute(None))


def test_a_found_value_and_a_recent_failure_go_to_those_who_joined_before_the_question() -> None:
    found = decide(Asking(), answered(Found(READING)), POLICY)
    assert found == (Delivering(), Deliver(Outcome("value", b"v", READING), "covered"))
    failed = decide(Asking(), answered(FailedRecently(b"no", 5)), POLICY)
    assert failed == (Delivering(), Deliver(Outcome("failure", b"no"), "covered"))


def test_an_early_refresh_that_nobody_waits_for_lands_when_the_store_does_not_answer() -> None:
    for away in (True, False):
        assert decide(Asking(), StoreFailed(away, wanted=False), POLICY) == (Landed(), Land())


def test_a_grant_is_computed_also_when_nobody_waits() -> None:
    for wanted in (True, False):
        assert decide(Asking(), answered(GRANT, wanted=wanted), POLICY) == (Computing(GRANT), Compute(GRANT))


def test_a_held_lease_is_waited_for_only_when_somebody_wants_the_value() -> None:
    state, command = decide(Asking(), answered(Held(5, False)), POLICY)
    assert state == Waiting(5)
    assert isinstance(command, Wait)
    assert decide(Asking(), answered(Held(5, False), wanted=False), POLICY) == (Landed(), Land())


def test_an_unanswered_ask_is_repeated_and_then_the_flight_computes_alone() -> None:
    state: Any = Asking()
    for tries in range(2, ASK_TRIES + 1):
        state, command = decide(state, StoreFailed(away=False), POLICY)
        assert (state, command) == (Asking(tries), Ask())
    assert decide(state, StoreFailed(away=False), POLICY) == (Computing(None), Compute(None))


def test_with_the_store_away_nothing_is_asked_twice() -> None:
    assert decide(Asking(), StoreFailed(away=True), POLICY) == (Computing(None), Compute(None))


@pytest.mark.parametrize("draw", [0.0, 0.3, 0.999])
def test_looks_are_jittered_and_never_further_apart_than_the_poll_interval(draw: float) -> None:
    usual = poll_after(draw, suspect=False, policy=POLICY)
    assert 0.5 * POLICY.poll_interval <= usual <= POLICY.poll_interval
    suspect = poll_after(draw, suspect=True, policy=POLICY)
    assert POLICY.takeover_gap < suspect <= POLICY.poll_interval


def test_a_takeover_gap_above_the_poll_interval_does_not_slow_the_looks() -> None:
    policy = Policy(takeover_gap=0.5, poll_interval=0.4)
    assert poll_after(0.9, suspect=True, policy=policy) == 0.4


# --- waiting --------------------------------------------------------------------------------------


def test_a_message_with_the_value_or_the_failure_ends_the_wait_for_those_who_were_covered() -> None:
    heard = decide(Waiting(7), Heard(Message("value", 7, READING), True), POLICY)
    assert heard == (Delivering(), Deliver(Outcome("value", b"v", READING), "covered"))
    heard = decide(Waiting(7), Heard(Message("failure", 7, body=b"no"), True), POLICY)
    assert heard == (Delivering(), Deliver(Outcome("failure", b"no"), "covered"))


def test_a_value_too_large_to_travel_is_asked_for() -> None:
    assert decide(Waiting(7), Heard(Message("value", 7), True), POLICY) == (Asking(), Ask())


@pytest.mark.parametrize("kind", ["value", "failure"])
def test_an_outcome_below_the_fence_is_ignored(kind: Any) -> None:
    message = Message(kind, 6, READING, b"no")
    assert decide(Waiting(7), Heard(message, True), POLICY) == (Waiting(7), Keep())


@pytest.mark.parametrize("token", [1, 7, 9])
def test_ask_again_is_always_heeded(token: int) -> None:
    assert decide(Waiting(7), Heard(Message("again", token), True), POLICY) == (Asking(), Ask())


def test_a_due_look_asks_again() -> None:
    assert decide(Waiting(7), LookAgain(True), POLICY) == (Asking(), Ask())


@pytest.mark.parametrize("event", [LookAgain(False), Heard(Message("value", 9, READING), False)])
def test_a_wait_that_nobody_wants_any_more_ends(event: Any) -> None:
    assert decide(Waiting(7), event, POLICY) == (Landed(), Land())


# --- computing and publishing ---------------------------------------------------------------------


def test_a_computed_value_is_published_under_its_grant() -> None:
    after = decide(Computing(GRANT), Computed(b"v"), POLICY)
    assert after == (Publishing(GRANT, OWN), Publish(GRANT, OWN))


def test_a_failure_is_published_like_a_value() -> None:
    outcome = Outcome("failure", b"no", own=True)
    after = decide(Computing(GRANT), Failed(b"no"), POLICY)
    assert after == (Publishing(GRANT, outcome), Publish(GRANT, outcome))


def test_a_value_that_may_not_be_stored_is_published_as_that() -> None:
    outcome = Outcome("pass", b"v", own=True)
    after = decide(Computing(GRANT), Computed(b"v", storable=False), POLICY)
    assert after == (Publishing(GRANT, outcome), Publish(GRANT, outcome))
    assert decide(after[0], PublishAnswered(True), POLICY) == (Delivering(), Deliver(outcome, "covered"))
    refused = decide(after[0], PublishAnswered(False), POLICY)
    assert refused == (Delivering(), Deliver(outcome, "before_compute"))


def test_a_value_that_is_not_to_be_shared_goes_to_the_caller_that_had_it_computed() -> None:
    event = Computed(b"v", storable=False, shared=False)
    for stored in (True, False):
        state, _ = decide(Computing(GRANT), event, POLICY)
        _, command = decide(state, PublishAnswered(stored), POLICY)
        assert isinstance(command, Deliver) and command.to == "leader"
    for away in (True, False):
        _, command = decide(Computing(None), replace(event, away=away), POLICY)
        assert isinstance(command, Deliver) and command.to == "leader"


def test_a_flight_that_is_let_through_computes_only_if_somebody_waits() -> None:
    grant = Granted(7, "epoch", leased=False)
    after = decide(Asking(), Answered(Uncacheable(grant), 0.0, wanted=True), POLICY)
    assert after == (Computing(grant), Compute(grant))
    after = decide(Asking(), Answered(Uncacheable(grant), 0.0, wanted=False), POLICY)
    assert after == (Delivering(), Release(None))


def test_what_is_nobody_elses_business_gives_the_lease_back() -> None:
    private = Outcome("failure", b"", own=True)
    assert decide(Computing(GRANT), Failed(None), POLICY) == (Delivering(), Release(private))
    assert decide(Computing(GRANT), Abandoned(), POLICY) == (Delivering(), Release(None))


def test_a_stored_value_goes_to_the_covered_and_a_refused_one_to_those_from_before_it() -> None:
    publishing = Publishing(GRANT, OWN)
    assert decide(publishing, PublishAnswered(True), POLICY) == (Delivering(), Deliver(OWN, "covered"))
    refused = decide(publishing, PublishAnswered(False), POLICY)
    assert refused == (Delivering(), Deliver(OWN, "before_compute"))


def test_an_unanswered_publication_is_repeated_and_then_handed_out() -> None:
    state: Any = Publishing(GRANT, OWN)
    for tries in range(2, PUBLISH_TRIES + 1):
        state, command = decide(state, StoreFailed(away=False), POLICY)
        assert (state, command) == (Publishing(GRANT, OWN, tries=tries), Publish(GRANT, OWN))
    # The store is there, so somebody may have invalidated: only who came before the computation is safe.
    assert decide(state, StoreFailed(away=False), POLICY) == (Delivering(), Deliver(OWN, "before_compute"))
    assert decide(state, StoreFailed(away=True), POLICY) == (Delivering(), Deliver(OWN, "everyone"))


def test_with_the_store_away_a_computed_value_is_for_everyone_in_this_process() -> None:
    assert decide(Computing(None), Computed(b"v"), POLICY) == (Delivering(), Deliver(OWN, "everyone"))
    after = decide(Publishing(GRANT, OWN), StoreFailed(away=True), POLICY)
    assert after == (Delivering(), Deliver(OWN, "everyone"))
    private = Outcome("failure", b"", own=True)
    assert decide(Computing(None), Failed(None), POLICY) == (Delivering(), Deliver(private, "everyone"))
    assert decide(Computing(None), Abandoned(), POLICY) == (Landed(), Land())


def test_a_store_that_is_back_before_the_computation_without_it_has_begun_is_asked() -> None:
    assert decide(Computing(None), LookAgain(wanted=False), POLICY) == (Asking(), Ask())


def test_an_invalidation_in_this_process_is_remembered_for_when_the_store_does_not_answer() -> None:
    state, command = decide(Computing(None), Invalidated(), POLICY)
    assert (state, command) == (Computing(None, fenced=True), Keep())
    assert decide(state, Computed(b"v"), POLICY) == (Delivering(), Deliver(OWN, "before_compute"))

    state, _ = decide(Computing(GRANT), Invalidated(), POLICY)
    state, _ = decide(state, Computed(b"v"), POLICY)
    assert state == Publishing(GRANT, OWN, fenced=True)
    after = decide(state, StoreFailed(away=True), POLICY)
    assert after == (Delivering(), Deliver(OWN, "before_compute"))

    state, _ = decide(Publishing(GRANT, OWN), Invalidated(), POLICY)
    after = decide(state, StoreFailed(away=True), POLICY)
    assert after == (Delivering(), Deliver(OWN, "before_compute"))


@pytest.mark.parametrize("state", [Asking(), Waiting(7), Delivering()])
def test_an_invalidation_changes_nothing_for_a_flight_that_has_nothing_of_its_own(state: Any) -> None:
    assert decide(state, Invalidated(), POLICY) == (state, Keep())


# --- landing --------------------------------------------------------------------------------------


def test_a_flight_lands_when_nobody_is_left_and_else_asks_again() -> None:
    assert decide(Delivering(), Delivered(0), POLICY) == (Landed(), Land())
    assert decide(Delivering(), Delivered(3), POLICY) == (Asking(), Ask())


# --- what does not fit ----------------------------------------------------------------------------

STATES = (Asking(), Waiting(7), Computing(GRANT), Publishing(GRANT, OWN), Delivering(), Landed())
EVENTS = (
    answered(GRANT),
    StoreFailed(False),
    Heard(Message("again", 7), True),
    LookAgain(True),
    Computed(b"v"),
    Failed(b"no"),
    Abandoned(),
    Invalidated(),
    PublishAnswered(True),
    Delivered(0),
)
FITTING = {
    Asking: {Answered, StoreFailed, Invalidated},
    Waiting: {Heard, LookAgain, Invalidated},
    Computing: {Computed, Failed, Abandoned, Invalidated},
    Publishing: {PublishAnswered, StoreFailed, Invalidated},
    Delivering: {Delivered, Invalidated},
    Landed: set(),
}


@pytest.mark.parametrize(
    ("state", "event"), list(itertools.product(STATES, EVENTS)), ids=lambda thing: type(thing).__name__
)
def test_an_event_either_fits_the_state_or_is_named_as_a_fault_of_the_driver(state: Any, event: Any) -> None:
    if type(event) in FITTING[type(state)]:
        decide(state, event, POLICY)
    else:
        with pytest.raises(AssertionError, match=f"{type(event).__name__} does not fit"):
            decide(state, event, POLICY)
