"""Which flight waits for which. A circle raises an error; otherwise it would be a deadlock.

A flight waits for the flights that its computation calls. It also waits for all other flights of its own entry in this
guard, because one of them may have the lease: one on another event loop, or an early refresh that callers do not find.

1. A is refreshed early, with the lease, by a flight that is set apart.
2. A calls B.
3. B calls A in a new flight. That flight finds the lease taken and would wait for `wait_timeout`.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from stampede_guard.engine.flights.computation import CURRENT
from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.errors import ReentrantCall
from stampede_guard.values.forks import renew_in_children

if TYPE_CHECKING:
    from stampede_guard.engine.flights.flight import Flight
    from stampede_guard.engine.plan import Plan, Run

__all__ = ["Awaited", "behind", "is_beside", "waiting_for"]

_lock = PassableLock()
"""Held from the search for a circle until the wait is recorded. Otherwise two event loops could close one together."""
renew_in_children(sys.modules[__name__], "_lock", PassableLock)


class Awaited:
    """The flights that a computation waits for. Several tasks may wait for one flight at once."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts: dict[Flight, int] = {}

    def __iter__(self) -> Iterator[Flight]:
        # A copy made in one step, because another thread may change it.
        return iter(tuple(self._counts))

    def __len__(self) -> int:
        return len(self._counts)

    def __contains__(self, flight: object) -> bool:
        return flight in self._counts

    def add(self, flight: Flight) -> None:
        self._counts[flight] = self._counts.get(flight, 0) + 1

    def discard(self, flight: Flight) -> None:
        left = self._counts.get(flight, 0) - 1
        if left > 0:
            self._counts[flight] = left
        else:
            self._counts.pop(flight, None)


@contextlib.contextmanager
def waiting_for(flight: Flight, plan: Plan) -> Iterator[None]:
    """Raises `ReentrantCall` when the current computation would wait for itself."""
    current = CURRENT.get()
    if current is None:
        yield
        return
    with _lock:
        if _leads_to(current, flight):
            raise ReentrantCall(
                f"{plan.title} is called with the same key inside its own computation: it would wait for itself. "
                "Call the undecorated function (`.__wrapped__`) there, or change the key."
            )
        current.awaits.add(flight)
    flight.computation.awaited_by(current.computation)
    try:
        yield
    finally:
        with _lock:
            current.awaits.discard(flight)


@contextlib.contextmanager
def behind(flight: Flight | None, leader: Flight | None) -> Iterator[None]:
    """For the time in which another flight's call computes this flight, as in a batch."""
    if flight is None or leader is None or flight is leader:
        yield
        return
    with _lock:
        flight.awaits.add(leader)
    leader.computation.awaited_by(flight.computation)
    try:
        yield
    finally:
        with _lock:
            flight.awaits.discard(leader)


def _leads_to(current: Flight, flight: Flight) -> bool:
    """Whether `flight` waits, perhaps through others, for `current`."""
    seen: set[Flight] = set()
    ahead = [flight]
    while ahead:
        other = ahead.pop()
        if other is current:
            return True
        if other not in seen:
            seen.add(other)
            ahead.extend(other.awaits)
            for runtime in other.runtime.unsettled.all():
                ahead.extend(runtime.flights.of(other.name))
    return False


def is_beside(run: Run) -> bool:
    """Whether the current code computes beside its flight's own computation: as a fallback."""
    flight = CURRENT.get()
    if flight is None:
        return False
    return not flight.computing or (flight.leader is not None and flight.leader.run != run)
