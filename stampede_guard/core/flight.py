"""One computation of one key in one process: what to do next.

    Asking --Granted--> Computing --Computed--> Publishing --stored--> Delivering --nobody left--> Landed
       |  ^                                          |                     |
       |  +------------- late passengers: ask again -(---------------------+
       +--Passing--> Computing, beside others        |
       +--Held--> Waiting --woken with the value-----+--refused: ask again

`decide(state, event, policy)` returns the next state and one command. The driver (`stampede_guard.flight`) carries the
command out and comes back with the event that it led to.

Who is served by what (the rule that makes joining safe at any time):

* An answer of the store covers the passengers that joined before the question was sent ("covered"). A later passenger
  may have come after an invalidation that the answer does not know of.
* A value or failure in a message covers them too, if its token is not below the fence that the last answer told. A
  message that only says "ask again" is always heeded.
* A refused value goes to the passengers that joined before its computation began, and to nobody else. So does one that
  was stored, if an invalidation of this process began meanwhile: it may be pending, and the store know nothing of it.
* A value that may not be stored is published as that, without its body, and goes to those that an accepted publication
  covers, like any other. One that is not to be shared goes to the caller that had it computed.

Passengers that are left over are the reason for another round, under the same flight.
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
from stampede_guard.core.scripts import Answer, FailedRecently, Found, Granted, Held, Message, Passing
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
"""Asks per round before the store counts as away for this flight. The same flight is answered the same token."""
PUBLISH_TRIES = 2


def begin(*, away: bool) -> tuple[State, Command]:
    """A new flight: it asks, or computes alone when the store is known to be away."""
    if away:
        return Computing(None), Compute(None)
    return Asking(), Ask()


def decide(state: State, event: Event, policy: Policy) -> tuple[State, Command]:
    """The next state and the one thing to do. An event that does not fit the state is a fault of the driver."""
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
                # An early refresh: what is stored is fresh, and without a lease every process would compute.
                return Landed(), Land()
            # The ask may still be carried out. Asking again under the same flight gets the same token, so no second
            # computation comes of a lost reply.
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
        case Passing(grant):
            # A stale value is served meanwhile. Without this every process would refresh it at once, again and again.
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
    """Seconds until the next look: jittered, at most `poll_interval`; just past the takeover gap for a suspect."""
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
    # 1. B waits, told fence 5. 2. A's value with token 3 was announced before the invalidation that raised the fence
    # and arrives only now. 3. Serving it would hand a caller a value from before an invalidation that it came after.
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
            # The store came back before the computation began: with a lease it is one for all, and is stored.
            return Asking(), Ask()
        case Invalidated():
            return replace(state, fenced=True), Keep()
        case _:
            raise _misplaced(state, event)


def _publishing(state: Publishing, event: Event) -> tuple[State, Command]:
    match event:
        case PublishAnswered(stored):
            # Refused: a fence was raised, the epoch is gone, or a newer value is there. Those who joined before the
            # computation began came before whatever raised the fence; everyone else asks again.
            # Fenced: 1. A computes. 2. B invalidates here; the store is not reached, so B is told "pending".
            # 3. C joins. 4. The store is reached again and takes A's value first. C came after the invalidation.
            covered = stored and not state.fenced
            return Delivering(), _deliver(state.outcome, "covered" if covered else "before_compute")
        case StoreFailed(away):
            # Publishing twice is harmless: the second is refused or writes the same.
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
    """Who may have a value that no store has confirmed.

    1. The store is away and A computes alone. 2. It is back; B invalidates, and is told that it is done. 3. A caller
    joins A's flight. It must not be served: only while the store is away does everybody get what there is.
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
