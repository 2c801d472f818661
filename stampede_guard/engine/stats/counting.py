"""Counts what this process does, by function."""

from __future__ import annotations

from collections.abc import Mapping

from stampede_guard.engine.threads.locks import PassableLock
from stampede_guard.events import Computed, Event, Hit, Miss, Stale
from stampede_guard.stores.fleet.sums import FunctionSums
from stampede_guard.values.forks import renew_in_children

__all__ = ["MOST_FUNCTIONS", "OTHERS", "Sums"]

MOST_FUNCTIONS = 200
OTHERS = "other functions"
"""Further functions are summed under this name: a `name=` made per call would need memory without bound."""


class Sums:
    """A hook. All event loops of a guard share it."""

    def __init__(self) -> None:
        self._rows: dict[str, FunctionSums] = {}
        self._lock = PassableLock()
        renew_in_children(self, "_lock", PassableLock)
        # The parent sends what it has counted.
        renew_in_children(self, "_rows", dict)

    def __call__(self, event: Event, /) -> None:
        kind = type(event)
        if kind is Hit or kind is Stale or kind is Miss or kind is Computed:
            with self._lock:
                self._count(event)

    def _count(self, event: Event) -> None:
        assert isinstance(event, Hit | Stale | Miss | Computed)
        row = self._row(event.function)
        if isinstance(event, Hit):
            row.hits += 1
        elif isinstance(event, Stale):
            row.stale += 1
        elif isinstance(event, Miss):
            row.misses += 1
        else:
            row.computations += 1
            row.failed += bool(event.error)
            row.micros += round(event.seconds * 1e6)

    def _row(self, title: str) -> FunctionSums:
        if title not in self._rows and len(self._rows) >= MOST_FUNCTIONS:
            title = OTHERS
        return self._rows.setdefault(title, FunctionSums())

    def take(self) -> dict[str, FunctionSums]:
        """What has come together since the last call."""
        with self._lock:
            rows, self._rows = self._rows, {}
        return rows

    def put_back(self, rows: Mapping[str, FunctionSums]) -> None:
        """The store has certainly not added these."""
        with self._lock:
            for title, row in rows.items():
                mine = self._row(title)
                mine += row
