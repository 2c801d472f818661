"""One computation of one key in one process: what to do next.

    Asking --Granted--> Computing --Computed--> Publishing --stored--> Delivering --nobody left--> Landed
       |  ^                                          |                     |
       |  +------------- late passengers: ask again -(---------------------+
       +--Uncacheable--> Computing, beside others        |
       +--Held--> Waiting --woken with the value-----+--refused: ask again

`decide(state, event, policy)` returns the next state and one command. The driver (`engine.flights.flight`) executes
the command and returns with the resulting event.

Which passengers an outcome may serve (the rule that makes joining safe at any time):

* An answer of the store covers the passengers that joined before the question was sent ("covered"). A later
  passenger may have come after an invalidation that the answer does not know.
* A value or failure in a message covers them too, if its token is not below the fence of the last answer. A message
  "ask again" is always obeyed.
* A refused value goes only to the passengers that joined before its computation began. The same holds for a stored
  value, if an invalidation of this process began during the computation: it may be pending, and unknown to the
  store.
* A value that may not be stored is published as such, without its body. It goes to the passengers that an accepted
  publication covers, like any other value. If it may not be shared, it goes only to the caller whose call was
  computed.

Passengers that are left cause another round, under the same flight.
"""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from stampede_guard.core.commands import (
    Ask,
    Audience,
    Command,
    Compute,
    Deliver,
    Keep,
    Land,
    Outcome,
    Publish,
    Release,
    Wait,
)
from stampede_guard.core.events import (
    Abandoned,
    Answered,
    Computed,
    Delivered,
    Event,
    Failed,
    Heard,
    Invalidated,
    LookAgain,
    PublishAnswered,
    StoreFailed,
)
from stampede_guard.core.scripts import Answer, FailedRecently, Found, Granted, Held, Message, Uncacheable
from stampede_guard.core.states import Asking, Computing, Delivering, Landed, Publishing, State, Waiting
from stampede_guard.policy import Policy

__all__ = [
    "Abandoned",
    "Answered",
    "Ask",
    "Asking",
    "Audience",
    "Command",
    "Compute",
    "Computed",
    "Computing",
    "Deliver",
    "Delivered",
    "Delivering",
    "Event",
    "Failed",
    "Heard",
    "Invalidated",
    "Keep",
    "Land",
    "Landed",
    "LookAgain",
    "Outcome",
    "Publish",
    "PublishAnswered",
    "Publishing",
    "Release",
    "State",
    "StoreFailed",
    "Wait",
    "Waiting",
    "begin",
    "decide",
]

ASK_TRIES = 2
"""Asks per round before the store counts as away for this flight. The same flight gets the same token again."""
PUBLISH_TRIES = 2


def begin(*, away: bool) -> tuple[State, Command]:
    """A new flight: it asks, or computes alone if the store is known to be away."""
    if away:
        return Computing(None), Compute(None)
    return Asking(), Ask()


def decide(state: State, event: Event, policy: Policy) -> tuple[State, Command]:
    """The next state and one command. An event that does not fit the state is a fault of the driver."""
    match state:
        case Asking():
            return _asking(state, event, policy)
        case Waiting():
            return _waiting(state, event, policy)
        case Computing():
            return _computing(state, event)
        case Publishing():
            return _publishing(state, event)
        case Delivering():
            return _delivering(state, event)
        case Landed():
            raise _misplaced(state, event)
        case _:
            assert_never(state)


def _asking(state: Asking, event: Event, policy: Policy) -> tuple[State, Command]:
    match event:
        case Answered(answer, draw, wanted):
            return _answered(answer, draw, wanted, policy)
        case StoreFailed(away, wanted):
            if not wanted:
                # An early refresh: the stored value is fresh, and without a lease every process would compute.
                return Landed(), Land()
            # The ask may still be carried out. Asking again under the same flight gets the same token, so a lost
            # reply causes no second computation.
            if not away and state.tries < ASK_TRIES:
                return replace(state, tries=state.tries + 1), Ask()
            return Computing(None), Compute(None)
        case Invalidated():
            return state, Keep()
        case _:
            raise _misplaced(state, event)


def _answered(answer: Answer, draw: float, wanted: bool, policy: Policy) -> tuple[State, Command]:
    match answer:
        case Found(reading):
            return Delivering(), Deliver(Outcome("value", reading.body, reading), "covered")
        case FailedRecently(body):
            return Delivering(), Deliver(Outcome("failure", body), "covered")
        case Granted():
            return Computing(answer), Compute(answer)
        case Uncacheable(grant):
            # Callers are served a stale value. Without this rule, every process would refresh at once, again and
            # again.
            if not wanted:
                return Delivering(), Release(None)
            return Computing(grant), Compute(grant)
        case Held(fence, suspect):
            if not wanted:
                return Landed(), Land()
            return Waiting(fence), Wait(poll_after(draw, suspect=suspect, policy=policy))
        case _:
            assert_never(answer)


def poll_after(draw: float, *, suspect: bool, policy: Policy) -> float:
    """Seconds until the next poll: jittered, at most `poll_interval`; just past the takeover gap for a suspect."""
    if suspect:
        return min(policy.takeover_gap * (1.02 + 0.2 * draw), policy.poll_interval)
    return policy.poll_interval * (0.6 + 0.4 * draw)


def _waiting(state: Waiting, event: Event, policy: Policy) -> tuple[State, Command]:
    match event:
        case Heard(message, wanted):
            if not wanted:
                return Landed(), Land()
            return _heard(state, message, policy)
        case LookAgain(wanted):
            if not wanted:
                return Landed(), Land()
            return Asking(), Ask()
        case Invalidated():
            return state, Keep()
        case _:
            raise _misplaced(state, event)


def _heard(state: Waiting, message: Message, policy: Policy) -> tuple[State, Command]:
    # 1. B waits, with fence 5 from its last answer. 2. A's value with token 3 was announced before the invalidation
    #    that raised the fence, and arrives only now. 3. If B served it, a caller would get a value from before an
    #    invalidation that was done before the caller came.
    if message.kind != "again" and message.token < state.fence:
        return state, Keep()
    if message.kind == "value" and message.reading is not None:
        return Delivering(), Deliver(Outcome("value", message.reading.body, message.reading), "covered")
    if message.kind == "failure":
        return Delivering(), Deliver(Outcome("failure", message.body), "covered")
    return Asking(), Ask()


def _computing(state: Computing, event: Event) -> tuple[State, Command]:
    match event:
        case Computed(body, storable, away, shared):
            outcome = Outcome("value" if storable else "pass", body, own=True, shared=shared)
            if state.grant is None:
                return Delivering(), _deliver(outcome, _unstored_audience(away=away, fenced=state.fenced))
            return Publishing(state.grant, outcome, state.fenced), Publish(state.grant, outcome)
        case Failed(body):
            outcome = Outcome("failure", body or b"", own=True)
            if state.grant is None:
                return Delivering(), Deliver(outcome, "before_compute" if state.fenced else "everyone")
            if body is None:
                return Delivering(), Release(outcome)
            return Publishing(state.grant, outcome, state.fenced), Publish(state.grant, outcome)
        case Abandoned():
            if state.grant is None:
                return Landed(), Land()
            return Delivering(), Release(None)
        case LookAgain() if state.grant is None:
            # The store came back before the computation began. With a lease, one computation serves all and is
            # stored.
            return Asking(), Ask()
        case Invalidated():
            return replace(state, fenced=True), Keep()
        case _:
            raise _misplaced(state, event)


def _publishing(state: Publishing, event: Event) -> tuple[State, Command]:
    match event:
        case PublishAnswered(stored):
            # Refused: a fence was raised, the epoch is gone, or a newer value is there. Passengers that joined
            # before the computation began came before whatever raised the fence. All others ask again. Fenced: 1. A
            # computes. 2. B invalidates here; the store is not reached, so B gets "pending".
            # 3. C joins. 4. The store is reached again and takes A's value first. C came after the invalidation.
            covered = stored and not state.fenced
            return Delivering(), _deliver(state.outcome, "covered" if covered else "before_compute")
        case StoreFailed(away):
            # Publishing twice is harmless: the second publication is refused or writes the same.
            if not away and state.tries < PUBLISH_TRIES:
                return replace(state, tries=state.tries + 1), Publish(state.grant, state.outcome)
            if state.outcome.kind == "failure":
                return Delivering(), Deliver(state.outcome, "before_compute" if state.fenced else "everyone")
            return Delivering(), _deliver(state.outcome, _unstored_audience(away=away, fenced=state.fenced))
        case Invalidated():
            return replace(state, fenced=True), Keep()
        case _:
            raise _misplaced(state, event)


def _deliver(outcome: Outcome, to: Audience) -> Deliver:
    return Deliver(outcome, to if outcome.shared else "leader")


def _unstored_audience(*, away: bool, fenced: bool) -> Audience:
    """Which passengers may have a value that no store has confirmed.

    1. The store is away and A computes alone. 2. It is back; B invalidates, and gets "done". 3. A caller joins A's
       flight. It must not be served: only while the store is away may all passengers get the value.
    """
    return "everyone" if away and not fenced else "before_compute"


def _delivering(state: Delivering, event: Event) -> tuple[State, Command]:
    match event:
        case Delivered(remaining):
            if remaining == 0:
                return Landed(), Land()
            return Asking(), Ask()
        case Invalidated():
            return state, Keep()
        case _:
            raise _misplaced(state, event)


def _misplaced(state: State, event: Event) -> AssertionError:
    return AssertionError(f"{type(event).__name__} does not fit {type(state).__name__}")
