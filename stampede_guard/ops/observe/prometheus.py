"""Metrics for Prometheus (extra `prometheus`). Works in prometheus-client's multiprocess
mode.

| metric | labels | what |
|---|---|---|
| `stampede_guard_calls_total` | function, result | calls: `hit`, `stale`, `miss` |
| `stampede_guard_served_total` | function, source | stored values that calls got: from `store`, `l1` or `memory` |
| `stampede_guard_wait_seconds` | function, outcome | how long a call without a hit waited, and the outcome |
| `stampede_guard_refreshes_total` | function, outcome | calls of `refresh()`, and their outcomes |
| `stampede_guard_compute_seconds` | function | how long computations took |
| `stampede_guard_computations_total` | function, outcome | computations: `ok`, `error` |
| `stampede_guard_collapsed_total` | function | callers served by another caller's computation |
| `stampede_guard_fallbacks_total` | function, outcome | fallbacks: `served`, `denied`, `failed` |
| `stampede_guard_timeouts_total` | function, what | by the Policy field whose time ran out |
| `stampede_guard_takeovers_total` | function | holders that disappeared |
| `stampede_guard_leases_lost_total` | function | leases that lapsed during a computation |
| `stampede_guard_invalidations_total` | outcome | `done`, `pending` |
| `stampede_guard_shadow_total` | function, found | what mode `shadow` would have served |
| `stampede_guard_held_leases_total` | function, outcome | leases: `won`, `released`, `lost`, `skipped` |
| `stampede_guard_job_slots_total` | function, outcome | slots of jobs that this worker claimed, and their outcomes |
| `stampede_guard_job_seconds` | function | from a slot's claim to its outcome |
| `stampede_guard_breaker_changes_total` | state | `open`, `closed` |
| `stampede_guard_store_refusals_total` | kind, state | `refused`, `recovered`; kinds: those of event `Refused` |
| `stampede_guard_not_stored_total` | function, kind | computed values that were not stored |
| `stampede_guard_value_bytes` | function | sizes of the computed values that were stored |
| `stampede_guard_store_seconds` | part | samples: from a command to its answer, up to 20 a second for each connection |
| `stampede_guard_in_flight` | function | gauge: computations that run now |
| `stampede_guard_store_away` | part | gauge: 1 while the store, or this server of it, is away |
| `stampede_guard_leases_held` | function | gauge: leases of one's own that are held now |
| `stampede_guard_l1_bytes` | none | gauge: what the copies in the process take (`l1_ttl`), to 6 % or 4 KiB |
| `stampede_guard_job_overdue` | function | gauge: 1 while a job that this process follows is overdue; not added up |

The gauges of several processes are added up, those of ended processes left out.
"""

from __future__ import annotations

from typing import Literal, assert_never, get_args

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from stampede_guard import events
from stampede_guard.errors import RefusalKind
from stampede_guard.events import Event, JobEvent, LeaseEvent, StoreEvent
from stampede_guard.jobs.messages import ENDED
from stampede_guard.ops.observe.buckets import SECONDS, SIZES, STORE_SECONDS
from stampede_guard.ops.observe.gauges import Gauges
from stampede_guard.options import takes_options

__all__ = ["PrometheusHook"]

MOST_FUNCTIONS = 200
"""Distinct labels. Further functions are counted as `other`, because a key's first part may be any text."""

_LEASES: dict[type[Event], str] = {
    events.LeaseWon: "won",
    events.LeaseReleased: "released",
    events.HoldLost: "lost",
    events.LeaseSkipped: "skipped",
}


class PrometheusHook:
    """One per process and registry: a second one raises prometheus-client's `ValueError` for the duplicate names."""

    @takes_options("PrometheusHook")
    def __init__(self, registry: CollectorRegistry = REGISTRY, *, prefix: str = "stampede_guard") -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"{prefix}_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, *labels: str, buckets: tuple[float, ...] = SECONDS) -> Histogram:
            return Histogram(f"{prefix}_{name}", text, labels, registry=registry, buckets=buckets)

        def gauge(
            name: str, text: str, *labels: str, mode: Literal["livesum", "livemax"] = "livesum"
        ) -> Gauge:
            return Gauge(f"{prefix}_{name}", text, labels, registry=registry, multiprocess_mode=mode)

        self._functions: set[str] = set()
        self._begun: set[str] = set()
        self._gauges = Gauges(gauge, self._label)
        self._served = counter("served_total", "Stored values that calls got.", "function", "source")
        self._calls = counter("calls_total", "Calls of cached functions.", "function", "result")
        self._waits = histogram("wait_seconds", "Waits of calls without a hit.", "function", "outcome")
        self._refreshes = counter("refreshes_total", "Calls of refresh().", "function", "outcome")
        self._durations = histogram("compute_seconds", "Durations of computations.", "function")
        self._computations = counter("computations_total", "Computations that ended.", "function", "outcome")
        self._collapsed = counter(
            "collapsed_total", "Callers served by another caller's computation.", "function"
        )
        self._fallbacks = counter(
            "fallbacks_total", "Computations beside a slow holder.", "function", "outcome"
        )
        self._timeouts = counter("timeouts_total", "Time-outs.", "function", "what")
        self._takeovers = counter(
            "takeovers_total", "Holders that disappeared and were replaced.", "function"
        )
        self._lost = counter("leases_lost_total", "Leases that lapsed during a computation.", "function")
        self._invalidations = counter("invalidations_total", "Calls of invalidate().", "outcome")
        self._shadow = counter("shadow_total", "What mode shadow would have served.", "function", "found")
        self._leases = counter("held_leases_total", "Outcomes of leases.", "function", "outcome")
        self._jobs = counter("job_slots_total", "Slots that this worker claimed.", "function", "outcome")
        self._job_seconds = histogram("job_seconds", "From a slot's claim to its outcome.", "function")
        self._breaker = counter("breaker_changes_total", "Times the store went away or came back.", "state")
        self._refusals = counter(
            "store_refusals_total", "Times the store began or stopped refusing.", "kind", "state"
        )
        for kind in get_args(RefusalKind):
            self._refusals.labels(kind, "refused")
        self._sizes = histogram(
            "value_bytes", "Sizes of computed values that were stored.", "function", buckets=SIZES
        )
        self._store_seconds = histogram(
            "store_seconds", "Samples: from a command to its answer.", "part", buckets=STORE_SECONDS
        )
        self._not_stored = counter(
            "not_stored_total", "Values that the store did not keep.", "function", "kind"
        )

    def __call__(self, event: Event, /) -> None:
        self._gauges(event)
        match event:
            case events.Hit():
                label = self._called(event.function)
                self._calls.labels(label, "hit").inc()
                self._served.labels(label, event.source).inc()
            case events.Stale():
                label = self._called(event.function)
                self._calls.labels(label, "stale").inc()
                self._served.labels(label, event.source).inc()
            case events.Miss():
                self._calls.labels(self._called(event.function), "miss").inc()
            case events.Waited():
                self._waits.labels(self._label(event.function), event.outcome).observe(event.seconds)
            case events.Refreshed():
                self._refreshes.labels(self._label(event.function), event.outcome).inc()
            case events.Computed():
                label = self._label(event.function)
                self._durations.labels(label).observe(event.seconds)
                self._computations.labels(label, "error" if event.error else "ok").inc()
            case events.Collapsed():
                self._collapsed.labels(self._label(event.function)).inc(event.callers)
            case events.Fallback():
                self._fallbacks.labels(self._label(event.function), event.outcome).inc()
            case events.TimedOut():
                self._timeouts.labels(self._label(event.function), event.what).inc()
            case events.TakenOver():
                self._takeovers.labels(self._label(event.function)).inc()
            case events.LeaseLapsed():
                self._lost.labels(self._label(event.function)).inc()
            case events.Compared():
                self._shadow.labels(self._label(event.function), event.found).inc()
            case events.Invalidated():
                self._invalidations.labels("done" if event.done else "pending").inc()
            case events.Started():
                pass
            case _:
                self._of_store(event)

    def _of_store(self, event: StoreEvent | LeaseEvent | JobEvent) -> None:
        match event:
            case events.BreakerOpened() | events.BreakerClosed():
                self._breaker.labels("open" if isinstance(event, events.BreakerOpened) else "closed").inc()
            case events.Refused() | events.Recovered():
                state = "refused" if isinstance(event, events.Refused) else "recovered"
                self._refusals.labels(event.kind, state).inc()
            case events.NotStored():
                self._not_stored.labels(self._label(event.function), event.kind).inc()
            case events.Stored():
                self._sizes.labels(self._label(event.function)).observe(event.size)
            case events.RoundTrip():
                self._store_seconds.labels(event.part).observe(event.seconds)
            case events.L1Sized():
                pass
            case _:
                self._of_work(event)

    def _of_work(self, event: LeaseEvent | JobEvent) -> None:
        match event:
            case events.LeaseWon() | events.LeaseReleased() | events.HoldLost() | events.LeaseSkipped():
                self._leases.labels(self._label(event.function), _LEASES[type(event)]).inc()
            case events.JobOverdue() | events.JobOnTime():
                self._followed(event.function)
            case events.JobEnded():
                label = self._label(event.function)
                self._jobs.labels(label, event.outcome).inc()
                self._job_seconds.labels(label).observe(event.seconds)
            case events.JobStarted():
                pass
            case _:
                assert_never(event)

    # --- series that begin with 0 ---------------------------------------------------------------
    # 1. A job fails once. 2. Its series appears, with the value 1. 3. Prometheus sees no increase: it has no earlier
    # sample. So the series that alerts use exist before anything goes wrong.

    def _called(self, function: str) -> str:
        if function in self._begun:
            return function
        label = self._label(function)
        if label not in self._begun:
            self._begun.add(label)
            for result in ("hit", "stale", "miss"):
                self._calls.labels(label, result)
            for counter in (self._takeovers, self._lost):
                counter.labels(label)
        return label

    def _followed(self, job: str) -> None:
        for outcome in ENDED:
            self._jobs.labels(self._label(job), outcome)

    def _label(self, function: str) -> str:
        if function not in self._functions:
            if len(self._functions) >= MOST_FUNCTIONS:
                return "other"
            self._functions.add(function)
        return function
