"""Counts what this process does, by function."""

from __future__ import annotations

from collections.abc import Mapping

from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.events import (
    Collapsed,
    Computed,
    Event,
    Fallback,
    Hit,
    Miss,
    Stale,
    TakenOver,
    TimedOut,
    Waited,
)
from stampede_guard.stores.fleet.histogram import bucket_of
from stampede_guard.stores.fleet.sums import FunctionSums
from stampede_guard.values.forks import renew_in_children

__all__ = ["MOST_FUNCTIONS", "MOST_LEFT_OUT", "OTHERS", "Sums"]

MOST_FUNCTIONS = 200
OTHERS = "other functions"
"""Further functions are summed under this name: a `name=` made per call would need memory without bound."""
MOST_LEFT_OUT = 1000
"""Of these, so many are told apart and counted."""

_COUNTED = frozenset((Hit, Stale, Miss, Computed, Waited, Collapsed, Fallback, TakenOver, TimedOut))


class Sums:
    """A hook. All event loops of a guard share it."""

    def __init__(self) -> None:
        self._rows: dict[str, FunctionSums] = {}
        self._others: set[int] = set()
        self.left_out = 0
        """How many functions the last rows that were taken have as `OTHERS`, at least."""
        self._lock = PassableLock()
        renew_in_children(self, "_lock", PassableLock)
        # The parent sends what it has counted.
        renew_in_children(self, "_rows", dict)

    def __call__(self, event: Event, /) -> None:
        if type(event) in _COUNTED:
            with self._lock:
                self._count(event)

    def _count(self, event: Event) -> None:
        match event:
            case Hit():
                self._row(event.function).hits += 1
            case Stale():
                self._row(event.function).stale += 1
            case Miss():
                self._row(event.function).misses += 1
            case Computed():
                row = self._row(event.function)
                row.computations += 1
                row.failed += bool(event.error)
                row.micros += round(event.seconds * 1e6)
                row.took[bucket_of(event.seconds)] += 1
            case Waited():
                self._row(event.function).waited[bucket_of(event.seconds)] += 1
            case Collapsed():
                self._row(event.function).collapsed += event.callers
            case Fallback():
                self._row(event.function).fallbacks += 1
            case TakenOver():
                self._row(event.function).takeovers += 1
            case TimedOut():
                self._row(event.function).timeouts += 1
            case _:
                raise AssertionError(f"{type(event).__name__} is not counted")

    def _row(self, title: str) -> FunctionSums:
        if title not in self._rows and len(self._rows) >= MOST_FUNCTIONS:
            if title != OTHERS and len(self._others) < MOST_LEFT_OUT:
                self._others.add(hash(title))
            title = OTHERS
        return self._rows.setdefault(title, FunctionSums())

    def take(self) -> dict[str, FunctionSums]:
        """What has come together since the last call."""
        with self._lock:
            rows, self._rows = self._rows, {}
            self.left_out = len(self._others)
            self._others.clear()
        return rows

    def put_back(self, rows: Mapping[str, FunctionSums]) -> None:
        """The store has certainly not added these."""
        with self._lock:
            for title, row in rows.items():
                mine = self._row(title)
                mine += row
