"""Traces for OpenTelemetry (extra `otel`): which flight computed, which calls waited for it.

A computation serves many requests, so its span is the root of its own trace. The spans of its calls (a query) are
below it. A call that waited, or refreshed, is a span in its request's trace. It has a link to the computation's
span, also if that ran in another process: its W3C traceparent travels with the wake-up. Without a link, that process
does not trace, or did not sample the computation, or the wake-up was lost. In one process, `stampede_guard.flight` is
the same attribute in both. Hits create no spans: at thousands per second, they would be most of the trace's cost.

A run of a job is a span too, with its calls below it. Other leases create no spans.
"""

from __future__ import annotations

import time
from collections import OrderedDict

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.trace import Link, Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags, Tracer
from opentelemetry.util.types import AttributeValue

from stampede_guard import events
from stampede_guard.events import Event
from stampede_guard.options import ALL, takes_options

__all__ = ["OpenTelemetryHook"]

MOST_FLIGHTS = 4096
"""Computations whose span a later wait can still link to."""


_NO_HIT: dict[str, AttributeValue] = {"cache.operation": "get", "cache.hit": False}


class OpenTelemetryHook:
    """`tracer` defaults to the global provider's. Attributes: `stampede_guard.function`, `.flight`, `.outcome`.

    A wait that got no stored value also has `cache.operation` and `cache.hit`, as Sentry's conventions name them.
    OpenTelemetry has no words for caches. What raised has `error.type` (its semantic conventions). `cache.key` is
    never there: it would contain values of parameters.
    """

    @takes_options("OpenTelemetryHook", own=ALL)
    def __init__(self, tracer: Tracer | None = None) -> None:
        self._tracer = tracer or trace.get_tracer("stampede_guard")
        self._open: dict[tuple[str, bool], Span] = {}
        self._runs: dict[tuple[str, int, int], Span] = {}
        self._known: OrderedDict[str, SpanContext] = OrderedDict()

    def __call__(self, event: Event, /) -> None:
        match event:
            case events.Started():
                self._start(event)
            case events.Computed():
                self._end(event)
            case events.Waited():
                self._waited(event, "wait")
            case events.Refreshed():
                self._waited(event, "refresh")
            case events.JobStarted():
                self._run_started(event)
            case events.JobEnded():
                self._run_ended(event)
            case events.TakenOver() | events.LeaseLapsed() | events.TimedOut() | events.Fallback():
                trace.get_current_span().add_event(
                    f"stampede_guard.{type(event).__name__}", {"stampede_guard.function": event.function}
                )
            case _:
                pass

    def traceparent(self, flight: str) -> str | None:
        """For the waiters in other processes: the computation's span, if it is sampled."""
        span = self._known.get(flight)
        if span is None or not span.trace_flags.sampled:
            return None
        return f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"

    def _start(self, event: events.Started) -> None:
        span = self._tracer.start_span(
            f"compute {event.function}",
            context=contexts.Context(),
            kind=SpanKind.INTERNAL,
            attributes={
                "stampede_guard.function": event.function,
                "stampede_guard.flight": event.flight,
                "stampede_guard.fallback": event.fallback,
            },
        )
        self._open[event.flight, event.fallback] = span
        self._known[event.flight] = span.get_span_context()
        while len(self._known) > MOST_FLIGHTS:
            self._known.popitem(last=False)
        # The computation's own context ends with it, so no detach is needed.
        contexts.attach(trace.set_span_in_context(span))

    def _end(self, event: events.Computed) -> None:
        span = self._open.pop((event.flight, event.fallback), None)
        if span is not None:
            if event.error:
                span.set_attribute("error.type", event.error)
                span.set_status(Status(StatusCode.ERROR, event.error))
            span.end()

    def _run_started(self, event: events.JobStarted) -> None:
        span = self._tracer.start_span(
            f"job {event.function}",
            context=contexts.Context(),
            kind=SpanKind.INTERNAL,
            attributes={
                "stampede_guard.function": event.function,
                "stampede_guard.slot": event.slot,
                "stampede_guard.run": event.run,
                "stampede_guard.attempt": event.attempt,
            },
        )
        self._runs[event.entry, event.slot, event.attempt] = span
        # The run has its own task, and so its own context.
        contexts.attach(trace.set_span_in_context(span))

    def _run_ended(self, event: events.JobEnded) -> None:
        span = self._runs.pop((event.entry, event.slot, event.attempt), None)
        if span is not None:
            span.set_attribute("stampede_guard.outcome", event.outcome)
            if event.error:
                span.set_attribute("error.type", event.error)
            if event.outcome != "completed":
                span.set_status(Status(StatusCode.ERROR, event.error or event.outcome))
            span.end()

    def _waited(self, event: events.Waited | events.Refreshed, what: str) -> None:
        known = self._known.get(event.flight) or _elsewhere(event.trace)
        now = time.time_ns()
        span = self._tracer.start_span(
            f"{what} {event.function}",
            kind=SpanKind.INTERNAL,
            links=[Link(known)] if known is not None else None,
            start_time=now - round(event.seconds * 1e9),
            attributes={
                "stampede_guard.function": event.function,
                "stampede_guard.flight": event.flight,
                "stampede_guard.outcome": event.outcome,
            },
        )
        if what == "wait" and event.outcome != "stale":
            span.set_attributes(_NO_HIT)
        if event.outcome in ("error", "timeout"):
            span.set_status(Status(StatusCode.ERROR, event.outcome))
        span.end(now)


def _elsewhere(traceparent: str) -> SpanContext | None:
    """The span in another process. The text has been checked: see `core.asks`."""
    if not traceparent:
        return None
    _, trace_id, span_id, flags = traceparent.split("-")
    return SpanContext(
        int(trace_id, 16), int(span_id, 16), is_remote=True, trace_flags=TraceFlags(int(flags, 16))
    )
