"""How long one caller waits, and what it gets if its time ends before its flight."""

from __future__ import annotations

from typing import Literal

__all__ = ["LastResort", "last_resort", "patience_with_stale"]

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


def patience_with_stale(*, soft_timeout: float, wait_timeout: float, flown: float) -> float:
    """Seconds for which a caller with a stale value waits for a fresh one; 0 = it does not wait.

    `flown`: how long its flight has been running. A flight that has already taken `soft_timeout` is too slow for
    all later callers. So not every caller of a slow computation waits to find that out.
    """
    return max(0.0, min(soft_timeout, wait_timeout) - flown)
