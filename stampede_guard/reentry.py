"""Who waits for whom: a circle is an error and not a deadlock."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stampede_guard.computation import CURRENT
from stampede_guard.errors import ReentrantCall

if TYPE_CHECKING:
    from stampede_guard.flight import Flight
    from stampede_guard.plan import Plan

__all__ = ["waiting_for"]


@contextlib.contextmanager
def waiting_for(flight: Flight, plan: Plan) -> Iterator[None]:
    """Raises `ReentrantCall` when the current computation would wait for itself."""
    current = CURRENT.get()
    if current is None:
        yield
        return
    _check_reentry(flight, plan)
    current.awaits.add(flight)
    flight.computation.awaited_by(current.computation)
    try:
        yield
    finally:
        current.awaits.discard(flight)


def _check_reentry(flight: Flight, plan: Plan) -> None:
    current = CURRENT.get()
    if current is None:
        return
    seen: set[Flight] = set()
    ahead = [flight]
    while ahead:
        other = ahead.pop()
        if other is current:
            raise ReentrantCall(
                f"{plan.title} is called with the same key, from within its own computation: it would wait for itself. "
                "Call the undecorated function (`.__wrapped__`) there, or change the key."
            )
        if other not in seen:
            seen.add(other)
            ahead.extend(other.awaits)
