"""Metrics for OpenTelemetry (extra `otel`): the same numbers as for Prometheus, by the provider's exporter.

| instrument | kind, unit | attributes |
|---|---|---|
| `stampede_guard.calls` | counter | function, result: `hit`, `stale`, `miss`; source: `store`, `l1`, `memory` |
| `stampede_guard.wait.duration` | histogram, s | function, outcome |
| `stampede_guard.compute.duration` | histogram, s | function, `error.type` if it raised, fallback |
| `stampede_guard.collapsed` | counter | function: callers served by another caller's computation |
| `stampede_guard.faults` | counter | function, kind: `taken_over`, `lapsed`, `fallback`, `timed_out`, `not_stored` |
| `stampede_guard.invalidations` | counter | outcome: `done`, `pending` |
| `stampede_guard.store.refusals` | counter | kind, state: `refused`, `recovered` |
| `stampede_guard.in_flight` | up-down counter | function: computations that run now |
| `stampede_guard.store.away` | up-down counter | part: 1 while the store, or this server of it, is away |
| `stampede_guard.leases.held` | up-down counter | function: leases that are held now |
| `stampede_guard.job.duration` | histogram, s | function, outcome |
| `stampede_guard.jobs.overdue` | up-down counter | function: jobs that this process sees overdue. Take the maximum |
| `stampede_guard.value.size` | histogram, By | function: sizes of computed values that were stored |
| `stampede_guard.store.duration` | histogram, s | part: samples, from a command to its answer |
| `stampede_guard.l1.size` | up-down counter, By | what the copies in the process take (`l1_ttl`) |

Attributes are named `stampede_guard.function` and so on. `error.type` is that of OpenTelemetry's semantic conventions,
which have no words for caches yet.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from opentelemetry import metrics
from opentelemetry.metrics import Histogram, Meter

from stampede_guard import events
from stampede_guard.events import Event
from stampede_guard.ops.observe.buckets import SECONDS, SIZES, STORE_SECONDS
from stampede_guard.options import ALL, takes_options

__all__ = ["OpenTelemetryMetrics"]

MOST_FUNCTIONS = 200
"""Distinct functions. Further ones are counted as `other`, because a key's first part may be any text."""

_FAULTS: dict[type[Event], str] = {
    events.TakenOver: "taken_over",
    events.LeaseLapsed: "lapsed",
    events.Fallback: "fallback",
    events.TimedOut: "timed_out",
    events.NotStored: "not_stored",
}


class OpenTelemetryMetrics:
    """A hook. `meter` defaults to the global provider's. Create one per process and give it to each guard."""

    @takes_options("OpenTelemetryMetrics", own=ALL)
    def __init__(self, meter: Meter | None = None) -> None:
        made = meter or metrics.get_meter("stampede_guard")
        self._functions: set[str] = set()
        self._running: set[tuple[str, bool]] = set()
        self._parts: set[str] = set()
        self._late: set[str] = set()
        self._calls = made.create_counter("stampede_guard.calls", "{call}", "Calls of cached functions.")
        self._waits = _histogram(made, "wait.duration", "s", "Waits of calls without a hit.")
        self._computed = _histogram(made, "compute.duration", "s", "Durations of computations.")
        self._collapsed = made.create_counter(
            "stampede_guard.collapsed", "{call}", "Callers served by another caller's computation."
        )
        self._faults = made.create_counter("stampede_guard.faults", "{fault}", "What went wrong, by kind.")
        self._invalidations = made.create_counter(
            "stampede_guard.invalidations", "{call}", "Calls of invalidate()."
        )
        self._refusals = made.create_counter(
            "stampede_guard.store.refusals", "{change}", "Times the store began or stopped refusing."
        )
        self._in_flight = made.create_up_down_counter(
            "stampede_guard.in_flight", "{computation}", "Computations that run now."
        )
        self._away = made.create_up_down_counter(
            "stampede_guard.store.away", "{server}", "1 while the store, or this part of it, is away."
        )
        self._held = made.create_up_down_counter(
            "stampede_guard.leases.held", "{lease}", "Leases that are held now."
        )
        self._sizes = _histogram(
            made, "value.size", "By", "Sizes of computed values that were stored.", SIZES
        )
        self._trips = _histogram(
            made, "store.duration", "s", "Samples: from a command to its answer.", STORE_SECONDS
        )
        self._copies = made.create_up_down_counter(
            "stampede_guard.l1.size", "By", "What the copies in the process take."
        )
        self._overdue = made.create_up_down_counter(
            "stampede_guard.jobs.overdue", "{job}", "Jobs that this process sees overdue."
        )
        self._jobs = _histogram(made, "job.duration", "s", "From a slot's claim to its outcome.")

    def __call__(self, event: Event, /) -> None:
        match event:
            case events.Hit() | events.Stale():
                result = "hit" if isinstance(event, events.Hit) else "stale"
                self._calls.add(1, self._of(event.function, result=result, source=event.source))
            case events.Miss():
                self._calls.add(1, self._of(event.function, result="miss"))
            case events.Waited() | events.Refreshed():
                self._waits.record(event.seconds, self._of(event.function, outcome=event.outcome))
            case events.Started():
                self._running.add((event.flight, event.fallback))
                self._in_flight.add(1, self._of(event.function))
            case events.Computed():
                self._ended(event)
            case events.Collapsed():
                self._collapsed.add(event.callers, self._of(event.function))
            case events.Invalidated():
                outcome = "done" if event.done else "pending"
                self._invalidations.add(1, {"stampede_guard.outcome": outcome})
            case events.BreakerOpened() | events.BreakerClosed():
                self._part(event.part, away=isinstance(event, events.BreakerOpened))
            case events.Refused() | events.Recovered():
                state = "refused" if isinstance(event, events.Refused) else "recovered"
                self._refusals.add(1, {"stampede_guard.kind": event.kind, "stampede_guard.state": state})
            case events.LeaseWon():
                self._held.add(1, self._of(event.function))
            case events.LeaseReleased() | events.HoldLost():
                self._held.add(-1, self._of(event.function))
            case events.JobEnded():
                self._jobs.record(event.seconds, self._of(event.function, outcome=event.outcome))
            case events.JobOverdue() | events.JobOnTime():
                self._job(event.function, late=isinstance(event, events.JobOverdue))
            case events.Stored():
                self._sizes.record(event.size, self._of(event.function))
            case events.RoundTrip():
                self._trips.record(event.seconds, {"stampede_guard.part": event.part})
            case events.L1Sized():
                self._copies.add(event.change)
            case _ if type(event) in _FAULTS:
                self._faults.add(1, self._of(getattr(event, "function", ""), kind=_FAULTS[type(event)]))
            case _:
                pass

    def _ended(self, event: events.Computed) -> None:
        about = self._of(event.function, **({"fallback": "true"} if event.fallback else {}))
        error = {"error.type": event.error} if event.error else {}
        self._computed.record(event.seconds, {**about, **error})
        # A hook that is added during a computation sees its end only.
        if (event.flight, event.fallback) in self._running:
            self._running.remove((event.flight, event.fallback))
            self._in_flight.add(-1, self._of(event.function))

    def _part(self, part: str, *, away: bool) -> None:
        # Several guards of a process may report one outage.
        if away == (part in self._parts):
            return
        self._parts ^= {part}
        self._away.add(1 if away else -1, {"stampede_guard.part": part})

    def _job(self, function: str, *, late: bool) -> None:
        if late != (function in self._late):
            self._late ^= {function}
            self._overdue.add(1 if late else -1, self._of(function))

    def _of(self, function: str, **words: str) -> Mapping[str, str]:
        if function not in self._functions:
            if len(self._functions) >= MOST_FUNCTIONS:
                function = "other"
            else:
                self._functions.add(function)
        return {"stampede_guard.function": function} | {
            f"stampede_guard.{name}": word for name, word in words.items()
        }


def _histogram(
    meter: Meter, name: str, unit: str, text: str, buckets: Sequence[float] = SECONDS
) -> Histogram:
    """With these buckets, which a view of the provider may replace. The defaults are made for milliseconds."""
    name = f"stampede_guard.{name}"
    try:
        return meter.create_histogram(name, unit, text, explicit_bucket_boundaries_advisory=buckets)
    except TypeError:  # before version 1.30 of OpenTelemetry
        return meter.create_histogram(name, unit, text)
