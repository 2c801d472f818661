"""What one caller gets when its own waiting time is over, while its flight goes on for others."""

from __future__ import annotations

from typing import Literal

__all__ = ["LastResort", "last_resort"]

LastResort = Literal["keep_waiting", "serve_stale", "try_fallback", "wait_for_fallback", "give_up"]


def last_resort(
    *,
    computes_itself: bool,
    has_stale: bool,
    fallback_limit: int,
    fallback: Literal["untried", "denied", "over"],
) -> LastResort:
    """The next thing for a caller that has waited `wait_timeout` seconds.

    A caller whose own call is being computed right now is not waiting; `compute_timeout` bounds it. A caller that was
    denied a fallback waits `fallback_timeout` more, because somebody else's fallback ends the wait for all. So no
    caller waits longer than `wait_timeout + fallback_timeout` for somebody else.
    """
    if computes_itself:
        return "keep_waiting"
    if has_stale:
        return "serve_stale"
    if fallback == "untried":
        return "try_fallback" if fallback_limit > 0 else "give_up"
    if fallback == "denied":
        return "wait_for_fallback"
    return "give_up"
