"""How long a caller waits, for each thing that it may wait for, and what it gets if its time ends before its flight.

`seconds_to_wait` is the only place that turns the policy's time-outs into seconds of waiting.
"""

from __future__ import annotations

from typing import Literal, assert_never

from stampede_guard.core.changing import AT_WORK
from stampede_guard.core.states import FlightState
from stampede_guard.policy import Policy

__all__ = [
    "LastResort",
    "WaitsFor",
    "computes_for_one",
    "last_resort",
    "may_be_replaced",
    "may_join",
    "poll_after",
    "seconds_to_wait",
    "store_deadline",
]

LATE_SECONDS = 0.1
_CLOCKS_DIFFER = 1.01
"""The waiter's clock and the store's may run at different speeds. A check that comes too early is lost."""

WaitsFor = Literal["value", "fresh_value", "own_computation", "fallback", "another_fallback", "turn"]
"""`value`: for another call's outcome, or for the end of another flight. `fresh_value`: the same, with a stale value in
hand. `own_computation`: its own call is computed. `fallback`: its own. `turn`: for one of the process's few
computations without the store."""


def seconds_to_wait(what: WaitsFor, policy: Policy, *, waited: float = 0.0) -> float:
    """Seconds that a caller still waits for this, after it has `waited` for it; 0.0 = no longer, or not at all.

    For a `fresh_value`, `waited` is how long its flight has been running. A flight that has already taken
    `soft_timeout` is too slow for all later callers. So not every caller of a slow computation waits to find that out.
    """
    match what:
        case "value" | "turn":
            seconds = policy.wait_timeout
        case "fresh_value":
            seconds = min(policy.soft_timeout, policy.wait_timeout)
        case "own_computation":
            seconds = policy.compute_timeout
        case "fallback" | "another_fallback":
            seconds = policy.fallback_timeout
        case _:
            assert_never(what)
    return max(0.0, seconds - waited)


def store_deadline(*, late: bool) -> float | None:
    """Seconds for the next answer of the store; None = the store's own deadline.

    `late`: a caller has waited a whole deadline without an answer. Then a moment is enough for a lost answer or a dead
    connection. A frozen server so costs a caller one deadline, not two.
    """
    return LATE_SECONDS if late else None


LastResort = Literal["keep_waiting", "serve_stale", "try_fallback", "wait_for_fallback", "give_up"]


def last_resort(
    *,
    computes_itself: bool,
    bound: bool,
    has_stale: bool,
    fallback_limit: int,
    fallback: Literal["untried", "denied", "over"],
) -> LastResort:
    """The next step for a caller that has waited `wait_timeout` seconds, or `soft_timeout` with a stale value.

    A stale value is served and the computation continues, unless it is `bound` to this caller's own request and
    would end with it. A caller whose own call is being computed does not wait; `compute_timeout` bounds it. A
    caller that was denied a fallback waits `fallback_timeout` more, because another flight's fallback ends the wait
    for all. So no caller waits longer than `wait_timeout + fallback_timeout` for another flight.
    """
    if has_stale and not (computes_itself and bound):
        return "serve_stale"
    if computes_itself:
        return "keep_waiting"
    if fallback == "untried":
        return "try_fallback" if fallback_limit > 0 else "give_up"
    if fallback == "denied":
        return "wait_for_fallback"
    return "give_up"


def may_join(state: FlightState, now: float, *, shares_uncached: bool) -> bool:
    """Whether a caller may join a flight without reading the store first.

    Not while old values are served. Not if the lease was lost or the computation is slow, because another process may
    have published. And not if this flight has handed out a value already: a key with callers in every round trip would
    never be read again.
    """
    if state.kind == "alone" or state.serves_old or state.served or now > state.open_until:
        return False
    return not computes_for_one(state, shares_uncached=shares_uncached)


def may_be_replaced(state: FlightState, token: int) -> bool:
    """Whether a value found with this token may be one that a refresh by this flight shall replace.

    Until the store has answered the flight, any value may. After that, these values may: one that does not answer the
    flight, and one whose computation began before its own. A fallback in another process may store such a value late.
    """
    own = state.phase.grant if isinstance(state.phase, AT_WORK) else None
    return state.overtakes or token <= state.newer_than or (own is not None and token < own.token)


def computes_for_one(state: FlightState, *, shares_uncached: bool) -> bool:
    """Whether a flight computes for one caller only, because the value may be private to that caller."""
    if shares_uncached or not isinstance(state.phase, AT_WORK):
        return False
    return state.phase.grant is not None and not state.phase.grant.leased


def poll_after(draw: float, *, suspect: bool, policy: Policy, first: bool = False) -> float:
    """Seconds until the next poll: jittered, at most `poll_interval`; just past the takeover gap for a suspect.

    `first`: this caller's check was the first to miss the holder. Only one check is, so it needs no jitter, and it
    takes over as early as the store allows. All others come later and find the new holder, or replace it, too.
    """
    if first:
        return min(policy.takeover_gap * _CLOCKS_DIFFER, policy.poll_interval)
    if suspect:
        return min(policy.takeover_gap * (1.02 + 0.2 * draw), policy.poll_interval)
    return policy.poll_interval * (0.6 + 0.4 * draw)
