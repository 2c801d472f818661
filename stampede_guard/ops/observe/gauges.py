"""The gauges of the Prometheus hook: what goes on at this moment in a process."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import Gauge

from stampede_guard import events
from stampede_guard.events import Event

__all__ = ["Gauges"]


class Gauges:
    """`gauge(name, text, *labels)` makes one. `label(function)` bounds the distinct labels."""

    def __init__(self, gauge: Callable[..., Gauge], label: Callable[[str], str]) -> None:
        self._label = label
        self._running: set[tuple[str, bool]] = set()
        self._in_flight = gauge("in_flight", "Computations that run now.", "function")
        self._away = gauge("store_away", "1 while the store, or this part of it, is away.", "part")
        self._copies = gauge("l1_bytes", "What the copies in the process take.")
        self._overdue = gauge("job_overdue", "1 while a job is overdue.", "function", mode="livemax")
        self._held = gauge("leases_held", "Leases that are held now.", "function")

    def __call__(self, event: Event, /) -> None:
        match event:
            case events.Started():
                self._running.add((event.flight, event.fallback))
                self._in_flight.labels(self._label(event.function)).inc()
            case events.Computed():
                # A hook that is added during a computation sees its end only.
                if (event.flight, event.fallback) in self._running:
                    self._running.remove((event.flight, event.fallback))
                    self._in_flight.labels(self._label(event.function)).dec()
            case events.BreakerOpened():
                self._away.labels(event.part).set(1)
            case events.BreakerClosed():
                self._away.labels(event.part).set(0)
            case events.L1Sized():
                self._copies.inc(event.change)
            case events.JobOverdue():
                self._overdue.labels(self._label(event.function)).set(1)
            case events.JobOnTime():
                self._overdue.labels(self._label(event.function)).set(0)
            case events.LeaseWon():
                self._held.labels(self._label(event.function)).inc()
            case events.LeaseReleased() | events.HoldLost():
                self._held.labels(self._label(event.function)).dec()
            case _:
                pass
