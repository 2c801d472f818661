"""One computation of one key in one process: what to do next. The package says which callers an outcome may serve."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import assert_never

from stampede_guard.core import commands as do
from stampede_guard.core import events as on
from stampede_guard.core.asks import FailedRecently, Found, Granted, Held, Uncacheable
from stampede_guard.core.caller import poll_after
from stampede_guard.core.changing import AT_WORK, LANDED, NEW, SERVING, changed
from stampede_guard.core.commands import Deliver, Keep
from stampede_guard.core.outcome import Audience, FlightOutcome
from stampede_guard.core.states import Asking, Computing, Delivering, FlightKind, Landed, Publishing, Waiting
from stampede_guard.core.states import FlightState as State
from stampede_guard.policy import Policy

TRIES = 2
"""Asks per round, and publications, before the store counts as away for this flight."""
Step = tuple[State, do.Command]


def begin(kind: FlightKind = "foreground", *, away: bool, newer_than: int = 0) -> Step:
    """A new flight: it asks, or computes without the store if that is known to be away."""
    state = NEW[kind] if not newer_than else changed(NEW[kind], newer_than=newer_than)
    return _compute(state, None) if away or kind == "bypassed" else (state, do.AskStore())


def decide(state: State, event: on.Event, policy: Policy) -> Step:
    """The next state and one command. An event that does not fit the phase is a fault of the driver."""
    phase = state.phase
    match event:
        case on.StoreAnswered() if isinstance(phase, Asking):
            return _answered(state, event, policy)
        case on.StoreFailed() if isinstance(phase, Asking | Publishing):
            state = changed(state, unsure=state.unsure or event.sent, late=state.late or event.late)
            if isinstance(phase, Publishing):
                return _not_published(state, phase, event)
            return _not_answered(state, phase, event, policy)
        case on.Heard() if isinstance(phase, Waiting):
            return _heard(state, phase, event, policy)
        case on.LookAgain() if isinstance(phase, Waiting):
            return _ask(state) if event.aboard.still_want(lingers=state.lingers) else _land(state, policy)
        case on.LookAgain() if isinstance(phase, Computing) and phase.grant is None:
            # The store came back before the computation began. With a lease, one computation serves all and is stored.
            return _ask(state)
        case on.ComputationBegan() if isinstance(phase, Computing):
            until = event.now + min(policy.lease_ttl, policy.wait_timeout)
            return changed(state, open_until=min(state.open_until, until)), Keep()
        case on.RenewalRefused() if isinstance(phase, AT_WORK):
            return changed(state, open_until=-inf), Keep()
        case on.ComputationEnded() | on.ComputationFailed() if isinstance(phase, Computing):
            return _computed(state, phase, event)
        case on.Abandoned() if isinstance(phase, Computing):
            state = changed(state, failed=event.refused)
            return _land(state, policy) if phase.grant is None else _release(state)
        case on.PublishAnswered() if isinstance(phase, Publishing):
            return _published(state, phase, event)
        case on.Delivered() if isinstance(phase, Delivering):
            served, unsure = state.served or phase.serves, state.unsure or not event.answered
            state = changed(state, served=served, unsure=unsure)
            left = event.aboard.callers if phase.serves else event.aboard.wanting
            return _ask(state) if left else _land(state, policy)
        case on.InvalidatedHere() if not isinstance(phase, Landed):
            if isinstance(phase, AT_WORK):
                state = changed(state, phase=replace(phase, fenced=True))
            return state, Keep()
        case on.OutdatedUpTo(token, refresh) if not isinstance(phase, Landed):
            newer_than, overtakes = max(state.newer_than, token), state.overtakes or refresh
            serves_old = state.serves_old or (refresh and token > 0)
            return changed(state, newer_than=newer_than, overtakes=overtakes, serves_old=serves_old), Keep()
        case on.Joined(has_old, patient, late) if not isinstance(phase, Landed):
            serves_old, lingers = state.serves_old and has_old, state.lingers or patient
            return changed(state, serves_old=serves_old, lingers=lingers, late=state.late or late), Keep()
        case on.Crashed():
            return _land(changed(state, unsure=True), policy)
        case _:
            raise AssertionError(f"{type(event).__name__} does not fit {type(phase).__name__}")


def _ask(state: State, *, tries: int = 1, after: float = 0.0) -> Step:
    if state.kind == "bypassed":
        return _compute(state, None)
    return changed(state, phase=Asking(tries), failed=False), do.AskStore(after)


def _answered(state: State, event: on.StoreAnswered, policy: Policy) -> Step:
    answer, aboard, overtakes, suspected = event.answer, event.aboard, state.overtakes, state.suspected
    if state.late or state.trusted_until or suspected or overtakes:
        state = changed(state, late=False, trusted_until=0.0, suspected=False, overtakes=False)
    match answer:
        case Found(reading) if overtakes:
            # The next value may be too old, too: 1. B has a token for a value and has not stored it yet. 2. A changes
            # the data, refreshes, and finds an older value. 3. B's value is stored, and is newer than that value.
            return _ask(changed(state, newer_than=max(state.newer_than, reading.token), overtakes=True))
        case Found(reading):
            return _deliver(state, FlightOutcome("value", reading.body, reading), "covered")
        case FailedRecently(body, _, remaining_ms):
            return _deliver(state, FlightOutcome("failure", body), "covered", pause=remaining_ms / 1000)
        case Granted():
            return _compute(state, answer, taken_over=suspected)
        case Uncacheable(grant):
            # Callers are served a stale value. Otherwise every process would refresh at once, and each stale hit ask.
            if not aboard.callers or not aboard.want(early=state.kind == "early"):
                return _release(state, pause=0.0 if aboard.callers else policy.poll_interval)
            return _compute(state, grant)
        case Held(fence, suspect, last, first):
            # The computation elsewhere began before the refresh was requested. A value found may be as old.
            newer_than = max(state.newer_than, last) if overtakes else state.newer_than
            trusted_until = event.now + min(policy.lease_ttl, policy.wait_timeout / 2)
            state = changed(state, newer_than=newer_than, trusted_until=trusted_until)
            if not aboard.want(early=state.kind == "early"):
                return _land(state, policy)
            wait = do.Wait(poll_after(event.draw, suspect=suspect, first=first, policy=policy))
            return changed(state, phase=Waiting(fence), suspected=suspect), wait
        case _:
            assert_never(answer)


def _not_answered(state: State, phase: Asking, event: on.StoreFailed, policy: Policy) -> Step:
    if event.now < state.trusted_until:
        # The holder was alive at the last answer, and a store that restarts is back in a moment. Otherwise every
        # waiter in all processes would compute for itself.
        return _ask(state, tries=phase.tries, after=poll_after(event.draw, suspect=False, policy=policy))
    if state.kind == "early" and not event.aboard.waits:
        # The stored value is fresh, and without a lease every process would compute.
        return _land(state, policy)
    # The ask may still be carried out. Asking again under the same flight gets the same token, so a lost reply causes
    # no second computation.
    if not event.away and phase.tries < TRIES:
        return _ask(state, tries=phase.tries + 1)
    # 1. The store goes away. 2. The reads of many entries fail together, before the breaker opens. 3. If their flights
    # computed, each process would compute every entry in use at once. Callers a moment later are served the last value.
    seen, wants_any = event.seen, state.kind == "foreground" and not state.overtakes
    if seen is not None and wants_any and seen.token > state.newer_than:
        return _deliver(state, FlightOutcome("value", seen.body, seen), "covered")
    return _compute(state, None)


def _heard(state: State, phase: Waiting, event: on.Heard, policy: Policy) -> Step:
    message = event.message
    # What a refresh replaces must not answer it. But the holder that it overtakes has ended, so it asks.
    is_news = message.kind == "again" or message.token > state.newer_than
    state = changed(state, failed=is_news and message.kind == "failure")
    if not event.aboard.still_want(lingers=state.lingers):
        return _land(state, policy)
    if not is_news:
        return _ask(state)
    # 1. B waits, with fence 5 from its last answer. 2. A's value with token 3 was announced before the invalidation
    #    that raised the fence, and arrives only now. 3. If B served it, a caller would get a value from before an
    #    invalidation that was done before the caller came.
    if message.kind != "again" and message.token < phase.fence:
        return state, Keep()
    if message.kind == "value" and message.reading is not None:
        return _deliver(state, FlightOutcome("value", message.reading.body, message.reading), "covered")
    if message.kind == "failure":
        return _deliver(state, FlightOutcome("failure", message.body), "covered")
    return _ask(state)


def _compute(state: State, grant: Granted | None, *, taken_over: bool = False) -> Step:
    return changed(state, phase=Computing(grant), open_until=inf), do.Compute(grant, taken_over)


def _computed(state: State, phase: Computing, event: on.ComputationEnded | on.ComputationFailed) -> Step:
    grant = phase.grant
    if isinstance(event, on.ComputationFailed):
        state, outcome = changed(state, failed=True), FlightOutcome("failure", event.body or b"", own=True)
        if grant is None:
            return _deliver_unstored(state, phase, outcome, away=True)
        if event.body is None:
            return _release(state, outcome)
    else:
        outcome = FlightOutcome(
            "value" if event.storable else "pass", event.body, own=True, shared=event.shared
        )
        if grant is None:
            return _deliver_unstored(changed(state, kept=False), phase, outcome, away=event.away)
    return changed(state, phase=Publishing(grant, outcome, phase.fenced), kept=False), do.Publish(
        grant, outcome
    )


def _published(state: State, phase: Publishing, event: on.PublishAnswered) -> Step:
    # Refused: a fence was raised, the epoch is gone, or a newer value is there. Passengers that joined before the
    # computation began came before whatever raised the fence. All others ask again. Fenced: 1. A computes. 2. B
    # invalidates here; the store is not reached, so B gets "pending".
    # 3. C joins. 4. The store is reached again and takes A's value first. C came after the invalidation.
    newer_than = max(state.newer_than, phase.grant.token) if event.outdated else state.newer_than
    kept = phase.outcome.kind != "pass" and (event.stored or None)
    covered = event.stored and not event.outdated and not phase.fenced
    to: Audience = "leader" if not phase.outcome.shared else "covered" if covered else "before_compute"
    return changed(state, phase=SERVING, newer_than=newer_than, kept=kept), Deliver(phase.outcome, to)


def _not_published(state: State, phase: Publishing, event: on.StoreFailed) -> Step:
    # Publishing twice is harmless: the second publication is refused or writes the same.
    if not event.away and phase.tries < TRIES:
        phase = replace(phase, tries=phase.tries + 1)
        return changed(state, phase=phase), do.Publish(phase.grant, phase.outcome)
    away = event.away or phase.outcome.kind == "failure"
    return _deliver_unstored(state, phase, phase.outcome, away=away)


def _deliver_unstored(
    state: State, phase: Computing | Publishing, outcome: FlightOutcome, *, away: bool
) -> Step:
    """Deliver an outcome that no store has confirmed. A failure may go to everyone, as if the store was away.

    1. The store is away and A computes alone. 2. It is back; B invalidates, and gets "done". 3. A caller joins A's
       flight. It must not be served: only while the store is away may all passengers get the value.
    """
    if phase.fenced:
        return _deliver(state, outcome, "before_compute")
    keeps = outcome.kind == "value" and (away or phase.grant is None) and state.kind != "bypassed"
    return _deliver(state, outcome, "everyone" if away else "before_compute", keeps=keeps)


def _deliver(
    state: State, outcome: FlightOutcome, to: Audience, *, keeps: bool = False, pause: float = 0.0
) -> Step:
    return changed(state, phase=SERVING), Deliver(outcome, to if outcome.shared else "leader", keeps, pause)


def _release(state: State, outcome: FlightOutcome | None = None, *, pause: float = 0.0) -> Step:
    return changed(state, phase=Delivering(serves=outcome is not None)), do.GiveBack(outcome, pause)


def _land(state: State, policy: Policy) -> Step:
    # Stale hits must not ask now, and the store may not know of the failure (private, or it was away).
    pause = policy.error_ttl if state.failed else 0.0
    return changed(state, phase=LANDED), do.Land(state.unsure, pause)
