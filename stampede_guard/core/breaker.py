"""When a store counts as away: a circuit breaker as one immutable value.

Callers never pay for an open breaker. The session sends its own probe in the background, every `PROBE_SECONDS`, to
notice when the store is back.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["OPEN_AFTER", "PROBE_SECONDS", "Breaker", "failed", "succeeded"]

OPEN_AFTER = 2
"""Consecutive failures that open it. One is a reset connection; a second, on a fresh connection, is an outage."""
PROBE_SECONDS = 0.25


@dataclass(frozen=True, slots=True)
class Breaker:
    failures: int = 0
    is_open: bool = False


def failed(breaker: Breaker) -> Breaker:
    """After a failed connection, or an answer that did not come in time."""
    failures = breaker.failures + 1
    return Breaker(failures, breaker.is_open or failures >= OPEN_AFTER)


def succeeded(breaker: Breaker) -> Breaker:
    """After any answer, even an error reply: a store that answers is not away."""
    return breaker if breaker == Breaker() else replace(breaker, failures=0, is_open=False)
