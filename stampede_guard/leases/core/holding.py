"""What an acquirer believes, and what it does next: IDLE -> ACQUIRING -> HELD -> STOPPING -> RELEASED or LOST.

    decide(state, event, timing) -> state, command

Belief is one number, `deadline`, on the holder's own clock. It comes from an answer and is counted from before the
request was sent (`sent_at`). So even a late answer never promises more than the back end did. Nothing else changes the
deadline: after an error, a time-out or an unknown reply it stays the same. The holder believes while `now < deadline`,
and each check reads the clock. A flag would not do, because it could be cleared too late.

`STOPPING` starts `grace` before the deadline, or when the release was requested. Then the body gets the signal to stop.
`STOPPING` never returns to `HELD`. Renewals continue until the body ends, so that its clean-up is still protected.
`LOST` is final, too. An answer that arrives after the deadline is ignored: other code may have seen the end of belief
already.

The event `Looked` may happen at any time, any number of times. Each command starts one action, and the driver reports
its end by an event. `Sleep` requests a `Looked` at that time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from stampede_guard.leases.core.moves import (
    AskFor,
    BackendAnswered,
    Command,
    Ended,
    Event,
    Freed,
    GiveUp,
    Looked,
    Lose,
    NoAnswer,
    Nothing,
    ReleaseLease,
    Renew,
    Returned,
    Sleep,
    Stop,
    Want,
)
from stampede_guard.leases.core.timing import FARTHEST_POLL, Timing
from stampede_guard.leases.messages import LeaseGranted, LeaseHeld, LeaseRefused, Renewed, Withheld

__all__ = [
    "Acquiring", "AskFor", "AwaitingLease", "BackendAnswered", "Command", "Ended", "Event", "Freed", "GiveUp",
    "Holding", "Idle", "Looked", "Lose", "Lost", "NoAnswer", "Nothing", "ReleaseLease", "Released", "Releasing",
    "Renew", "Returned", "Sleep", "State", "Stop", "Stopping", "Want", "decide", "deadline_of",
]  # fmt: skip

NEVER = float("inf")


# --- states


@dataclass(frozen=True, slots=True)
class Idle:
    pass


@dataclass(frozen=True, slots=True)
class Acquiring:
    """A request was sent. `until`: the end of the wait. `ahead`, `hears`: from the last answer.

    `freed`: the lease was released since the request was sent, and so many waiters are called before us; None = it was
    not.
    """

    until: float
    sent_at: float
    queues: bool
    ahead: int = -1
    hears: bool = False
    freed: int | None = None


@dataclass(frozen=True, slots=True)
class AwaitingLease:
    """`ahead`: as in `LeaseHeld`. `ask_at`: when to ask next. `hears`: whether the back end can call this waiter."""

    until: float
    ask_at: float
    queues: bool
    ahead: int = -1
    hears: bool = False


@dataclass(frozen=True, slots=True)
class Holding:
    """HELD. `sent_at`: when the running renewal was sent, None = none runs. `hinted`: a hint came after that.

    `asked_at`: when the last renewal was sent, answered or not.
    """

    token: int
    deadline: float
    renew_at: float
    sent_at: float | None = None
    hinted: bool = False
    asked_at: float = -NEVER


@dataclass(frozen=True, slots=True)
class Stopping:
    """The body got the signal to stop. `renew_at`: infinite after a request to release; then the lease just ends."""

    token: int
    deadline: float
    renew_at: float
    why: str
    sent_at: float | None = None
    hinted: bool = False
    asked_at: float = -NEVER


@dataclass(frozen=True, slots=True)
class Releasing:
    """The body has ended; the release was sent."""

    token: int
    deadline: float
    why: str = ""


@dataclass(frozen=True, slots=True)
class Released:
    """`why`: why the body got the signal to stop; empty if it got none."""

    token: int
    why: str = ""


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease was lost before its release: belief ended, or the back end said so. `token` 0: it was never held."""

    token: int
    why: str


State = Idle | Acquiring | AwaitingLease | Holding | Stopping | Releasing | Released | Lost


NOT_RENEWED = "it could not be renewed in time"
ENDED_MEANWHILE = "its time ended before it was released"


def deadline_of(state: State) -> float:
    """The end of belief. It is in the past without belief, for example after the release was sent."""
    return state.deadline if isinstance(state, Holding | Stopping) else -NEVER


def decide(state: State, event: Event, timing: Timing) -> tuple[State, Command]:
    match state:
        case Idle():
            return _start(event, timing) if isinstance(event, Want) else (state, Nothing())
        case Acquiring():
            return _acquiring(state, event, timing)
        case AwaitingLease():
            return _waiting(state, event, timing)
        case Holding() | Stopping():
            return _holding(state, event, timing)
        case Releasing():
            return _leaving(state, event)
        case Released() | Lost():
            return state, Nothing()


def _start(event: Want, timing: Timing) -> tuple[State, Command]:
    queues = event.wait > 0
    state = Acquiring(event.now + event.wait, event.now, queues)
    return state, _ask(state, timing)


def _ask(state: Acquiring, timing: Timing) -> AskFor:
    if not state.queues:
        return AskFor(0.0)
    return AskFor(timing.place_for(state.ahead, hears=state.hears), timing.turn(hears=state.hears))


def _acquiring(state: Acquiring, event: Event, timing: Timing) -> tuple[State, Command]:
    if isinstance(event, BackendAnswered) and isinstance(event.answer, LeaseGranted):
        deadline = timing.deadline(state.sent_at)
        if event.now < deadline - timing.grace:
            held = Holding(event.answer.token, deadline, state.sent_at + timing.renew_every)
            return _look(held, event.now, timing)
        # The answer came too late to be useful. Ask again: the holder gets the same grant with a later deadline.
        if event.now < state.until:
            return replace(state, sent_at=event.now), _ask(state, timing)
        return Lost(0, NOT_RENEWED), GiveUp()
    if isinstance(event, Freed):
        return replace(state, freed=max(event.ahead, 0)), Nothing()
    if not isinstance(event, BackendAnswered | NoAnswer):
        return state, Nothing()
    if event.now >= state.until:
        return Lost(0, "another process has it"), GiveUp()
    ahead, remaining, hears = -1, NEVER, False
    if isinstance(event, BackendAnswered) and isinstance(event.answer, LeaseHeld):
        ahead, remaining, hears = event.answer.ahead, event.answer.remaining, event.hears
        if ahead < 0 and state.queues:
            # The queue is full: this one is behind all others. The back end calls only waiters with a place.
            ahead = FARTHEST_POLL
    elif isinstance(event, BackendAnswered) and isinstance(event.answer, Withheld):
        remaining = event.answer.remaining
    place = timing.place_for(state.ahead, hears=state.hears)
    seconds = timing.next_question(remaining, ahead, event.draw, place=place, hears=hears)
    if state.freed is not None:
        seconds = min(seconds, timing.after_waking(state.freed, event.draw))
    ask_at = min(event.now + seconds, state.until)
    return AwaitingLease(state.until, ask_at, state.queues, ahead, hears), Sleep(ask_at)


def _waiting(state: AwaitingLease, event: Event, timing: Timing) -> tuple[State, Command]:
    if isinstance(event, Freed):
        ahead = event.ahead if event.ahead >= 0 else state.ahead
        ask_at = min(state.ask_at, event.now + timing.after_waking(ahead, event.draw))
        return replace(state, ask_at=ask_at), Sleep(ask_at)
    if not isinstance(event, Looked):
        return state, Nothing()
    if event.now < state.ask_at:
        return state, Sleep(state.ask_at)
    asking = Acquiring(state.until, event.now, state.queues, state.ahead, state.hears)
    return asking, _ask(asking, timing)


def _holding(state: Holding | Stopping, event: Event, timing: Timing) -> tuple[State, Command]:
    match event:
        case Looked():
            return _look(state, event.now, timing)
        case NoAnswer():
            told_all = state.renew_at == NEVER and not state.hinted
            again = NEVER if told_all else event.now + timing.retry_every
            return _look(replace(state, sent_at=None, hinted=False, renew_at=again), event.now, timing)
        case Freed():
            return _hinted(state, event.now, timing)
        case BackendAnswered():
            return _renewed(state, event, timing)
        case Ended():
            if event.now >= state.deadline:
                # Release it anyway. If the back end still had our lease, no other process has held it.
                return Releasing(state.token, state.deadline, _why(state) or ENDED_MEANWHILE), ReleaseLease()
            return Releasing(state.token, state.deadline, _why(state)), ReleaseLease()
        case _:
            return state, Nothing()


def _renewed(state: Holding | Stopping, event: BackendAnswered, timing: Timing) -> tuple[State, Command]:
    if event.now >= state.deadline:
        return _look(state, event.now, timing)
    if isinstance(event.answer, LeaseRefused):
        why = "another process has it" if event.answer.why == "taken" else "the back end no longer has it"
        return Lost(state.token, why), Lose(why)
    sent_at = state.sent_at
    if not isinstance(event.answer, Renewed) or sent_at is None:
        return state, Nothing()
    if event.answer.asked_to_leave:
        # The back end did not extend it, so neither do we.
        again = event.now + timing.retry_every if state.hinted else NEVER
        state = replace(state, sent_at=None, hinted=False, renew_at=again)
        if isinstance(state, Holding):
            return _stop(state, f"{event.answer.asked_to_leave} asked for its release")
        return _look(state, event.now, timing)
    extended = replace(
        state,
        deadline=max(state.deadline, timing.deadline(sent_at)),
        renew_at=sent_at + (timing.retry_every if state.hinted else timing.renew_every),
        sent_at=None,
        hinted=False,
    )
    return _look(extended, event.now, timing)


def _hinted(state: Holding | Stopping, now: float, timing: Timing) -> tuple[State, Command]:
    """The release may have been requested: renew now, before the next renewal is due.

    But not more often than after a failure. Otherwise a flood of hints would cause a flood of requests.
    """
    if state.sent_at is not None:
        # 1. the back end executes our renewal, 2. the release is requested, 3. the hint arrives, 4. our answer arrives
        # and does not contain the request.
        return replace(state, hinted=True), Nothing()
    # Before the first renewal, the last request was the one that got the lease.
    last_asked = max(state.asked_at, state.deadline - timing.trusted)
    soon = max(now, last_asked + timing.retry_every)
    return _look(replace(state, renew_at=min(state.renew_at, soon)), now, timing)


def _look(state: Holding | Stopping, now: float, timing: Timing) -> tuple[State, Command]:
    if now >= state.deadline:
        why = _why(state) or NOT_RENEWED
        return Lost(state.token, why), Lose(why)
    stop_at = state.deadline - timing.grace
    if isinstance(state, Holding) and now >= stop_at:
        return _stop(state, NOT_RENEWED)
    next_end = stop_at if isinstance(state, Holding) else state.deadline
    if state.sent_at is not None:
        return state, Sleep(next_end)
    if now >= state.renew_at:
        return replace(state, sent_at=now, asked_at=now), Renew()
    return state, Sleep(min(next_end, state.renew_at))


def _stop(state: Holding, why: str) -> tuple[State, Command]:
    return Stopping(
        state.token, state.deadline, state.renew_at, why, state.sent_at, state.hinted, state.asked_at
    ), Stop(why)


def _leaving(state: Releasing, event: Event) -> tuple[State, Command]:
    if not isinstance(event, Returned):
        return state, Nothing()
    if event.held is False or (event.held is None and event.now >= state.deadline):
        return Lost(state.token, state.why or ENDED_MEANWHILE), Nothing()
    return Released(state.token, state.why), Nothing()


def _why(state: Any) -> str:
    return state.why if isinstance(state, Stopping) else ""
