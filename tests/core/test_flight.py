"""What a flight does next, case by case."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from stampede_guard.core.aboard import Aboard
from stampede_guard.core.asks import Answer, FailedRecently, Found, Granted, Held, Message, Uncacheable
from stampede_guard.core.caller import poll_after
from stampede_guard.core.commands import (
    AskStore,
    Command,
    Compute,
    Deliver,
    GiveBack,
    Keep,
    Land,
    Publish,
    Wait,
)
from stampede_guard.core.entry import Reading
from stampede_guard.core.events import (
    Abandoned,
    ComputationBegan,
    ComputationEnded,
    ComputationFailed,
    Crashed,
    Delivered,
    Event,
    Heard,
    InvalidatedHere,
    Joined,
    LookAgain,
    OutdatedUpTo,
    PublishAnswered,
    RenewalRefused,
    StoreAnswered,
    StoreFailed,
)
from stampede_guard.core.flight import TRIES, begin, decide
from stampede_guard.core.outcome import FlightOutcome
from stampede_guard.core.states import (
    Asking,
    Computing,
    Delivering,
    FlightState,
    Landed,
    Phase,
    Publishing,
    Waiting,
)
from stampede_guard.policy import Policy

POLICY = Policy()
GRANT = Granted(7, "e")
READING = Reading(b"v", 7, 1000, 0, 900)
OWN = FlightOutcome("value", b"v", own=True)
ONE = Aboard(1, 1, waits=True)
NOBODY = Aboard()
ONE_WITH_STALE = Aboard(1, 0)


def answered(answer: Answer, aboard: Aboard = ONE) -> StoreAnswered:
    return StoreAnswered(answer, aboard, 100.0, 0.5)


def failed(*, away: bool, aboard: Aboard = ONE, now: float = 100.0, late: bool = False) -> StoreFailed:
    return StoreFailed(away, aboard, now, 0.5, late=late)


def after(phase: Phase, event: Event, policy: Policy = POLICY, **facts: Any) -> tuple[FlightState, Command]:
    return decide(FlightState(phase, **facts), event, policy)


def step(phase: Phase, event: Event, policy: Policy = POLICY, **facts: Any) -> tuple[Phase, Command]:
    """The next phase and the command."""
    state, command = after(phase, event, policy, **facts)
    return state.phase, command


# --- beginning and asking -------------------------------------------------------------------------


def test_a_flight_begins_by_asking_or_computes_alone_when_the_store_is_away() -> None:
    state, command = begin(away=False)
    assert (state.phase, command) == (Asking(), AskStore())
    for state, command in (begin(away=True), begin("bypassed", away=False)):
        assert (state.phase, command) == (Computing(None), Compute(None))


def test_a_found_value_and_a_recent_failure_go_to_those_who_joined_before_the_question() -> None:
    found = step(Asking(), answered(Found(READING)))
    assert found == (Delivering(), Deliver(FlightOutcome("value", b"v", READING), "covered"))
    failed = step(Asking(), answered(FailedRecently(b"no", 5)))
    assert failed == (Delivering(), Deliver(FlightOutcome("failure", b"no"), "covered"))


def test_an_early_refresh_that_nobody_waits_for_lands_when_the_store_does_not_answer() -> None:
    for away in (True, False):
        event = failed(away=away, aboard=NOBODY)
        assert step(Asking(), event, kind="early") == (Landed(), Land(releases=True))


def test_a_grant_is_computed_also_when_nobody_waits() -> None:
    for aboard in (ONE, NOBODY):
        assert step(Asking(), answered(GRANT, aboard)) == (Computing(GRANT), Compute(GRANT))


def test_a_held_lease_is_waited_for_only_when_somebody_wants_the_value() -> None:
    state, command = step(Asking(), answered(Held(5, False)))
    assert state == Waiting(5)
    assert isinstance(command, Wait)
    held = answered(Held(5, False), ONE_WITH_STALE)
    assert step(Asking(), held) == (Landed(), Land())
    assert step(Asking(), answered(Held(5, False), NOBODY), kind="early") == (Landed(), Land())
    state, _ = step(Asking(), answered(Held(5, False), NOBODY), kind="refresh")
    assert state == Waiting(5), "stale hits send no commands in that time"


def test_an_unanswered_ask_is_repeated_and_then_the_flight_computes_alone() -> None:
    state: Any = Asking()
    for tries in range(2, TRIES + 1):
        state, command = step(state, failed(away=False))
        assert (state, command) == (Asking(tries), AskStore())
    assert step(state, failed(away=False)) == (Computing(None), Compute(None))


def test_a_value_seen_before_the_outage_answers_the_callers_who_notice_it() -> None:
    event = failed(away=True)._replace(seen=READING)
    outcome = FlightOutcome("value", b"v", READING)
    assert step(Asking(), event) == (Delivering(), Deliver(outcome, "covered"))
    computed = (Computing(None), Compute(None))
    assert step(Asking(), event, newer_than=7) == computed, "outdated, or could not be decoded"
    assert step(Asking(), event, newer_than=6)[0] == Delivering()
    for kind in ("refresh", "alone"):
        assert step(Asking(), event, kind=kind) == computed
    assert step(Asking(), event, overtakes=True) == computed, "a refresh wants another value"
    assert step(Asking(), failed(away=False)._replace(seen=READING))[0] == Asking(2)


def test_with_the_store_away_nothing_is_asked_twice() -> None:
    assert step(Asking(), failed(away=True)) == (Computing(None), Compute(None))


@pytest.mark.parametrize("draw", [0.0, 0.3, 0.999])
def test_looks_are_jittered_and_never_further_apart_than_the_poll_interval(draw: float) -> None:
    usual = poll_after(draw, suspect=False, policy=POLICY)
    assert 0.5 * POLICY.poll_interval <= usual <= POLICY.poll_interval
    suspect = poll_after(draw, suspect=True, policy=POLICY)
    assert POLICY.takeover_gap < suspect <= POLICY.poll_interval


@pytest.mark.parametrize("draw", [0.0, 0.3, 0.999])
def test_whoever_misses_the_holder_first_looks_again_before_all_others(draw: float) -> None:
    first = poll_after(draw, suspect=True, first=True, policy=POLICY)
    others = poll_after(0.0, suspect=True, policy=POLICY)
    assert POLICY.takeover_gap < first < others, "no jitter: only one check is the first"
    _, command = step(Asking(), answered(Held(5, True, 0, True))._replace(draw=draw))
    assert command == Wait(first)


def test_a_takeover_gap_above_the_poll_interval_does_not_slow_the_looks() -> None:
    policy = Policy(takeover_gap=0.5, poll_interval=0.4)
    assert poll_after(0.9, suspect=True, policy=policy) == 0.4
    assert poll_after(0.9, suspect=True, first=True, policy=policy) == 0.4


# --- waiting --------------------------------------------------------------------------------------


def test_a_message_with_the_value_or_the_failure_ends_the_wait_for_those_who_were_covered() -> None:
    heard = step(Waiting(7), Heard(Message("value", 7, READING), ONE))
    assert heard == (Delivering(), Deliver(FlightOutcome("value", b"v", READING), "covered"))
    heard = step(Waiting(7), Heard(Message("failure", 7, body=b"no"), ONE))
    assert heard == (Delivering(), Deliver(FlightOutcome("failure", b"no"), "covered"))


def test_a_value_too_large_to_travel_is_asked_for() -> None:
    assert step(Waiting(7), Heard(Message("value", 7), ONE)) == (Asking(), AskStore())


@pytest.mark.parametrize("kind", ["value", "failure"])
def test_an_outcome_below_the_fence_is_ignored(kind: Any) -> None:
    message = Message(kind, 6, READING, b"no")
    assert step(Waiting(7), Heard(message, ONE)) == (Waiting(7), Keep())


@pytest.mark.parametrize("token", [1, 7, 9])
def test_ask_again_is_always_heeded(token: int) -> None:
    assert step(Waiting(7), Heard(Message("again", token), ONE)) == (Asking(), AskStore())


def test_a_due_look_asks_again() -> None:
    assert step(Waiting(7), LookAgain(ONE)) == (Asking(), AskStore())


@pytest.mark.parametrize("event", [LookAgain(NOBODY), Heard(Message("value", 9, READING), NOBODY)])
def test_a_wait_that_nobody_wants_any_more_ends(event: Any) -> None:
    assert step(Waiting(7), event) == (Landed(), Land())


# --- computing and publishing ---------------------------------------------------------------------


def test_a_computed_value_is_published_under_its_grant() -> None:
    seen = step(Computing(GRANT), ComputationEnded(b"v"))
    assert seen == (Publishing(GRANT, OWN), Publish(GRANT, OWN))


def test_a_failure_is_published_like_a_value() -> None:
    outcome = FlightOutcome("failure", b"no", own=True)
    seen = step(Computing(GRANT), ComputationFailed(b"no"))
    assert seen == (Publishing(GRANT, outcome), Publish(GRANT, outcome))


def test_a_value_that_may_not_be_stored_is_published_as_that() -> None:
    outcome = FlightOutcome("pass", b"v", own=True)
    seen = step(Computing(GRANT), ComputationEnded(b"v", storable=False))
    assert seen == (Publishing(GRANT, outcome), Publish(GRANT, outcome))
    assert step(seen[0], PublishAnswered(True)) == (Delivering(), Deliver(outcome, "covered"))
    refused = step(seen[0], PublishAnswered(False))
    assert refused == (Delivering(), Deliver(outcome, "before_compute"))


def test_a_value_that_is_not_to_be_shared_goes_to_the_caller_that_had_it_computed() -> None:
    event = ComputationEnded(b"v", storable=False, shared=False)
    for stored in (True, False):
        state, _ = step(Computing(GRANT), event)
        _, command = step(state, PublishAnswered(stored))
        assert isinstance(command, Deliver) and command.to == "leader"
    for away in (True, False):
        _, command = step(Computing(None), event._replace(away=away))
        assert isinstance(command, Deliver) and command.to == "leader"


def test_a_flight_that_is_let_through_computes_only_if_somebody_waits() -> None:
    grant = Granted(7, "epoch", leased=False)
    seen = step(Asking(), answered(Uncacheable(grant)))
    assert seen == (Computing(grant), Compute(grant))
    seen = step(Asking(), answered(Uncacheable(grant), ONE_WITH_STALE))
    assert seen == (Delivering(serves=False), GiveBack(None))


def test_what_is_nobody_elses_business_gives_the_lease_back() -> None:
    private = FlightOutcome("failure", b"", own=True)
    assert step(Computing(GRANT), ComputationFailed(None)) == (Delivering(), GiveBack(private))
    assert step(Computing(GRANT), Abandoned()) == (Delivering(serves=False), GiveBack(None))


def test_a_stored_value_goes_to_the_covered_and_a_refused_one_to_those_from_before_it() -> None:
    publishing = Publishing(GRANT, OWN)
    assert step(publishing, PublishAnswered(True)) == (Delivering(), Deliver(OWN, "covered"))
    refused = step(publishing, PublishAnswered(False))
    assert refused == (Delivering(), Deliver(OWN, "before_compute"))


def test_an_unanswered_publication_is_repeated_and_then_handed_out() -> None:
    state: Any = Publishing(GRANT, OWN)
    for tries in range(2, TRIES + 1):
        state, command = step(state, failed(away=False))
        assert (state, command) == (Publishing(GRANT, OWN, tries=tries), Publish(GRANT, OWN))
    # The store is there, so somebody may have invalidated: only who came before the computation is safe.
    assert step(state, failed(away=False)) == (Delivering(), Deliver(OWN, "before_compute"))
    assert step(state, failed(away=True)) == (Delivering(), Deliver(OWN, "everyone", keeps=True))


def test_with_the_store_away_a_computed_value_is_for_everyone_in_this_process() -> None:
    kept = (Delivering(), Deliver(OWN, "everyone", keeps=True))
    assert step(Computing(None), ComputationEnded(b"v")) == kept
    assert step(Publishing(GRANT, OWN), failed(away=True)) == kept
    private = FlightOutcome("failure", b"", own=True)
    assert step(Computing(None), ComputationFailed(None)) == (Delivering(), Deliver(private, "everyone"))
    assert step(Computing(None), Abandoned()) == (Landed(), Land())


def test_a_store_that_is_back_before_the_computation_without_it_has_begun_is_asked() -> None:
    assert step(Computing(None), LookAgain(NOBODY)) == (Asking(), AskStore())


def test_an_invalidation_in_this_process_is_remembered_for_when_the_store_does_not_answer() -> None:
    state, command = step(Computing(None), InvalidatedHere())
    assert (state, command) == (Computing(None, fenced=True), Keep())
    assert step(state, ComputationEnded(b"v")) == (Delivering(), Deliver(OWN, "before_compute"))

    state, _ = step(Computing(GRANT), InvalidatedHere())
    state, _ = step(state, ComputationEnded(b"v"))
    assert state == Publishing(GRANT, OWN, fenced=True)
    seen = step(state, failed(away=True))
    assert seen == (Delivering(), Deliver(OWN, "before_compute"))

    state, _ = step(Publishing(GRANT, OWN), InvalidatedHere())
    seen = step(state, failed(away=True))
    assert seen == (Delivering(), Deliver(OWN, "before_compute"))


@pytest.mark.parametrize("state", [Asking(), Waiting(7), Delivering()])
def test_an_invalidation_changes_nothing_for_a_flight_that_has_nothing_of_its_own(state: Any) -> None:
    assert step(state, InvalidatedHere()) == (state, Keep())


# --- what a flight knows --------------------------------------------------------------------------


def test_while_its_holder_counts_as_alive_a_flight_asks_again_and_does_not_compute() -> None:
    state, _ = after(Asking(), answered(Held(5, False)))
    until = 100.0 + min(POLICY.lease_ttl, POLICY.wait_timeout / 2)
    assert state.trusted_until == until
    state, _ = decide(state, LookAgain(ONE), POLICY)
    trusting, command = decide(state, failed(away=True, now=until - 0.1), POLICY)
    assert isinstance(trusting.phase, Asking)
    assert isinstance(command, AskStore) and 0 < command.after <= POLICY.poll_interval
    _, command = decide(state, failed(away=True, now=until), POLICY)
    assert command == Compute(None)


def test_a_refresh_overtakes_what_was_computed_or_stored_before_the_first_answer() -> None:
    state, command = after(Asking(), answered(Held(5, False, 8)), overtakes=True)
    assert (state.newer_than, state.overtakes) == (8, False)
    heard = decide(state, Heard(Message("value", 8, READING), ONE), POLICY)
    assert heard[1] == AskStore(), "the holder has ended"
    state, command = after(Asking(), answered(Found(READING)), overtakes=True)
    assert (state.newer_than, command) == (READING.token, AskStore())
    assert state.overtakes, "what it finds next may be older than its call, too"
    state, _ = after(Asking(), answered(GRANT), overtakes=True)
    assert not state.overtakes


def test_a_flight_knows_whether_the_store_kept_what_it_computed() -> None:
    state, _ = after(Computing(GRANT), ComputationEnded(b"v"))
    assert state.kept is False
    assert decide(state, PublishAnswered(True), POLICY)[0].kept is True
    assert decide(state, PublishAnswered(False), POLICY)[0].kept is None
    assert decide(state, failed(away=True), POLICY)[0].kept is False


def test_a_flight_that_fails_or_crashes_says_what_is_left_to_do() -> None:
    state, _ = after(Delivering(), Delivered(NOBODY), failed=True)
    assert decide(state, Crashed(), POLICY)[1] == Land(releases=True, pause=POLICY.error_ttl)
    assert after(Asking(), Crashed())[1] == Land(releases=True)


# --- landing --------------------------------------------------------------------------------------


def test_a_flight_lands_when_nobody_is_left_and_else_asks_again() -> None:
    assert step(Delivering(), Delivered(NOBODY)) == (Landed(), Land())
    assert step(Delivering(), Delivered(Aboard(3, 3, waits=True))) == (Asking(), AskStore())


# --- what does not fit ----------------------------------------------------------------------------

STATES = (Asking(), Waiting(7), Computing(GRANT), Publishing(GRANT, OWN), Delivering(), Landed())
EVENTS = (
    answered(GRANT),
    failed(away=False),
    Heard(Message("again", 7), ONE),
    LookAgain(ONE),
    ComputationEnded(b"v"),
    ComputationFailed(b"no"),
    Abandoned(),
    InvalidatedHere(),
    OutdatedUpTo(9),
    Joined(has_old=False),
    Crashed(),
    ComputationBegan(1.0),
    RenewalRefused(),
    PublishAnswered(True),
    Delivered(NOBODY),
)
ALWAYS = {InvalidatedHere, OutdatedUpTo, Joined, Crashed}
FITTING = {
    Asking: {StoreAnswered, StoreFailed} | ALWAYS,
    Waiting: {Heard, LookAgain} | ALWAYS,
    Computing: {ComputationBegan, RenewalRefused, ComputationEnded, ComputationFailed, Abandoned} | ALWAYS,
    Publishing: {PublishAnswered, StoreFailed, RenewalRefused} | ALWAYS,
    Delivering: {Delivered} | ALWAYS,
    Landed: {Crashed},
}


@pytest.mark.parametrize(
    ("state", "event"), list(itertools.product(STATES, EVENTS)), ids=lambda thing: type(thing).__name__
)
def test_an_event_either_fits_the_state_or_is_named_as_a_fault_of_the_driver(state: Any, event: Any) -> None:
    if type(event) in FITTING[type(state)]:
        step(state, event)
    else:
        with pytest.raises(AssertionError, match=f"{type(event).__name__} does not fit"):
            step(state, event)
