"""The rules of what a flight knows, each left out: see `tests.core.mutations`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stampede_guard.core import caller, flight
from stampede_guard.core.asks import Found, Held
from stampede_guard.core.commands import Compute, Deliver, Keep, Land
from stampede_guard.core.events import (
    Heard,
    Joined,
    OutdatedUpTo,
    PublishAnswered,
    StoreAnswered,
    StoreFailed,
)
from stampede_guard.core.states import FlightState
from tests.core.steps import Core
from tests.core.world import Setup

LOSE = frozenset({"lose"})
REFRESH = Setup(callers=1, demands=1)
PATIENT = Setup(callers=1, patients=1, stale_at_start=True)
BYPASSED = Setup(bypassed=True)
NO_STORE = Setup(callers=1, demands=1, faults=2, kinds=LOSE, seen_at_start=True)
TRUSTING = Setup(faults=2, kinds=LOSE, timed=True)


def _with(change: Callable[[FlightState, Any], FlightState]) -> Core:
    """A core that forgets something before each decision."""
    return Core(decide=lambda state, event, policy: flight.decide(change(state, event), event, policy))


def _without(change: Callable[[FlightState, Any], tuple[FlightState, Any]]) -> Core:
    """A core whose decisions are changed."""

    def decide(state: FlightState, event: Any, policy: Any) -> Any:
        return change(*flight.decide(state, event, policy))

    return Core(decide=decide)


def _trusts_nobody(state: FlightState, event: Any) -> FlightState:
    return state._replace(trusted_until=0.0) if isinstance(event, StoreFailed) else state


def _trusts_for_ever(state: FlightState, event: Any) -> FlightState:
    return state._replace(trusted_until=10.0**9) if state.trusted_until else state


def _forgets_what_it_has_seen(state: FlightState, event: Any, policy: Any) -> Any:
    return flight.decide(
        state, event._replace(seen=None) if isinstance(event, StoreFailed) else event, policy
    )


def _gives_everybody_what_it_has_seen(state: FlightState, event: Any, policy: Any) -> Any:
    if isinstance(event, StoreFailed) and event.seen is not None:
        state = state._replace(kind="foreground", overtakes=False)
    return flight.decide(state, event, policy)


def _forgets_the_refresh(state: FlightState, event: Any) -> FlightState:
    held = isinstance(event, StoreAnswered) and isinstance(event.answer, Held)
    return state._replace(overtakes=False) if held else state


def _takes_what_it_finds(state: FlightState, event: Any) -> FlightState:
    found = isinstance(event, StoreAnswered) and isinstance(event.answer, Found)
    return state._replace(overtakes=False) if found else state


def _waits_on(state: FlightState, event: Any, policy: Any) -> Any:
    if isinstance(event, Heard) and event.message.kind != "again":
        if event.message.token <= state.newer_than:
            return state, Keep()
    return flight.decide(state, event, policy)


def _does_not_linger(state: FlightState, event: Any) -> FlightState:
    return state._replace(lingers=False)


def _keeps_no_secret(state: FlightState, command: Any) -> tuple[FlightState, Any]:
    return state, command._replace(releases=False) if isinstance(command, Land) else command


def _asks_at_once_after_failures(state: FlightState, command: Any) -> tuple[FlightState, Any]:
    return state, command._replace(pause=0.0) if isinstance(command, Land) else command


def _says_nothing_of_takeovers(state: FlightState, command: Any) -> tuple[FlightState, Any]:
    return state, command._replace(taken_over=False) if isinstance(command, Compute) else command


def _keeps_whatever_it_computed(state: FlightState, command: Any) -> tuple[FlightState, Any]:
    if isinstance(command, Deliver) and command.outcome.own and command.outcome.kind == "value":
        command = command._replace(keeps=True)
    return state, command


def _counts_refused_as_kept(state: FlightState, event: Any, policy: Any) -> Any:
    after, command = flight.decide(state, event, policy)
    return (after._replace(kept=True) if isinstance(event, PublishAnswered) else after), command


def _asks_although_bypassed(kind: Any, **given: Any) -> Any:
    state, command = flight.begin("foreground", **given)
    return state._replace(kind=kind), command


def _always_open(state: FlightState, now: float, **given: Any) -> bool:
    return caller.may_join(state._replace(served=False), now, **given)


def _hears_no_outdating(state: FlightState, event: Any, policy: Any) -> Any:
    after, command = flight.decide(state, event, policy)
    return (state if isinstance(event, OutdatedUpTo | Joined) else after), command


FLIGHT: dict[str, tuple[str, Setup, Core]] = {
    "a waiter trusts nobody": ("alive a moment ago", TRUSTING, _with(_trusts_nobody)),
    "a waiter trusts for ever": ("goes on to trust", TRUSTING, _with(_trusts_for_ever)),
    "an outage computes what was seen": (
        "although it has seen the value",
        NO_STORE,
        Core(decide=_forgets_what_it_has_seen),
    ),
    "an outage answers refresh() with what was seen": (
        "was served version",
        NO_STORE,
        Core(decide=_gives_everybody_what_it_has_seen),
    ),
    "refresh() takes what was computed before it": (
        "was served version",
        REFRESH,
        _with(_forgets_the_refresh),
    ),
    "refresh() takes what it finds": ("was served version", REFRESH, _with(_takes_what_it_finds)),
    "refresh() waits on although the holder has ended": (
        "waits for a timer",
        REFRESH,
        Core(decide=_waits_on),
    ),
    "refresh() takes what is stored": (
        "was served version",
        REFRESH,
        Core(decide=_hears_no_outdating),
    ),
    "a slow flight does not linger": ("was forgotten", PATIENT, _with(_does_not_linger)),
    "a lost ask is not released": (
        "leave a lease behind",
        Setup(faults=1, kinds=LOSE, events=1, event_kinds=frozenset({"cancel"})),
        _without(_keeps_no_secret),
    ),
    "stale hits ask at once after a failure": (
        "at once after a failure",
        Setup(callers=1, events=1, event_kinds=frozenset({"fail"})),
        _without(_asks_at_once_after_failures),
    ),
    "a takeover is not told": (
        "takeover is not told",
        Setup(faults=1, kinds=frozenset({"crash"})),
        _without(_says_nothing_of_takeovers),
    ),
    "what was invalidated here is kept": (
        "itself invalidated",
        Setup(pending=1),
        _without(_keeps_whatever_it_computed),
    ),
    "a bypassed flight keeps its value": (
        "without leave",
        BYPASSED,
        _without(_keeps_whatever_it_computed),
    ),
    "a bypassed flight asks": ("asks the store", BYPASSED, Core(begin=_asks_although_bypassed)),
    "refused counts as kept": (
        "counts as kept",
        Setup(invalidations=1),
        Core(decide=_counts_refused_as_kept),
    ),
    "open after the first outcome": ("has handed out", Setup(callers=3), Core(may_join=_always_open)),
}
