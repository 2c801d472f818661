"""The OpenTelemetry hook: a computation is a trace of its own, and those that waited for it are linked to it."""

from __future__ import annotations

import asyncio

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from stampede_guard import StampedeGuard, events
from stampede_guard.jobs import Jobs, Run
from stampede_guard.leases import MemoryLeases
from stampede_guard.ops.observe.otel import MOST_FLIGHTS, OpenTelemetryHook
from stampede_guard.stores.memory import MemoryStore
from tests.support.gate import Gate, soon
from tests.support.guards import joined


class Traces:
    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = provider.get_tracer("test")
        self.hook = OpenTelemetryHook(self.tracer)
        self.guard = StampedeGuard(MemoryStore(), hooks=(self.hook,))

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


async def test_every_waiting_request_is_linked_to_the_one_computation() -> None:
    traces, gate = Traces(), Gate()

    @traces.guard.locked_cache(ttl=60, name="report")
    async def report(number: int) -> str:
        with traces.tracer.start_as_current_span("query"):
            await gate.hold()
        return "report"

    async def request(number: int) -> str:
        with traces.tracer.start_as_current_span(f"request {number}"):
            return await report(7)

    requests = [asyncio.create_task(request(number)) for number in range(3)]
    await gate.arrival()
    await joined(traces.guard, traces.guard.prefix + report.key(7).partition(":")[2], 3)
    gate.open()
    await soon(asyncio.gather(*requests))
    (computing,) = traces.named("compute report")
    (query,) = traces.named("query")
    assert computing.parent is None, "it serves three requests and belongs to none of them"
    assert query.parent is not None and query.parent.span_id == computing.context.span_id
    waits = traces.named("wait report")
    parents = {traces.named(f"request {number}")[0].context.span_id for number in range(3)}
    assert {span.parent.span_id for span in waits if span.parent is not None} == parents
    for wait in waits:
        assert [link.context.span_id for link in wait.links] == [computing.context.span_id]
        assert wait.attributes is not None and computing.attributes is not None
        assert wait.attributes["stampede_guard.flight"] == computing.attributes["stampede_guard.flight"]
        assert wait.start_time is not None and wait.end_time is not None and wait.start_time <= wait.end_time
    for wait in waits:
        assert wait.attributes is not None and "cache.key" not in wait.attributes
        assert (wait.attributes["cache.operation"], wait.attributes["cache.hit"]) == ("get", False)
    outcomes = sorted(str(span.attributes["stampede_guard.outcome"]) for span in waits if span.attributes)
    assert outcomes == ["collapsed", "collapsed", "computed"]
    await traces.guard.aclose()


async def test_a_hit_makes_no_span_and_a_failed_computation_a_red_one() -> None:
    traces = Traces()

    @traces.guard.locked_cache(ttl=60, name="report")
    async def report(number: int) -> str:
        if number < 0:
            raise LookupError("secret")
        return "report"

    await report(1)
    made = len(traces.exporter.get_finished_spans())
    await report(1)
    assert len(traces.exporter.get_finished_spans()) == made == 2
    with pytest.raises(LookupError):
        await report(-1)
    red = [
        span for span in traces.exporter.get_finished_spans() if span.status.status_code is StatusCode.ERROR
    ]
    assert sorted(span.name for span in red) == ["compute report", "wait report"]
    assert {span.attributes.get("error.type") for span in red if span.attributes} == {"LookupError", None}
    assert "secret" not in "".join(span.to_json() for span in traces.exporter.get_finished_spans())
    await traces.guard.aclose()


def test_flights_that_a_wait_can_be_linked_to_are_bounded() -> None:
    traces = Traces()
    for number in range(MOST_FLIGHTS + 10):
        traces.hook(events.Started("f", "e", str(number)))
        traces.hook(events.Computed("f", "e", 0.1, str(number)))
    assert len(traces.hook._known) == MOST_FLIGHTS
    assert traces.hook._open == {}


async def test_a_refresh_is_a_span_of_that_name() -> None:
    traces = Traces()

    @traces.guard.locked_cache(ttl=60, name="report")
    async def report(number: int) -> str:
        return "report"

    await report.refresh(7)
    (span,) = traces.named("refresh report")
    (computing,) = traces.named("compute report")
    assert [link.context.span_id for link in span.links] == [computing.context.span_id]
    assert not traces.named("wait report")
    await traces.guard.aclose()


async def test_a_run_of_a_job_is_a_span_and_what_it_calls_comes_below_it() -> None:
    traces = Traces()
    async with MemoryLeases(namespace="shop", hooks=(traces.hook,)) as leases:
        jobs = Jobs(leases)

        @jobs.every(300)
        async def sync(run: Run) -> None:
            with traces.tracer.start_as_current_span("query"):
                pass

        @jobs.every(300)
        async def broken() -> None:
            raise PermissionError("401")

        await jobs.run_now("sync")
        await jobs.run_now("broken")
    (run,) = traces.named("job sync")
    (query,) = traces.named("query")
    (failed,) = traces.named("job broken")
    assert query.parent is not None and run.context is not None
    assert query.parent.span_id == run.context.span_id
    assert run.attributes is not None and run.attributes["stampede_guard.outcome"] == "completed"
    assert (failed.status.status_code, failed.status.description) == (StatusCode.ERROR, "PermissionError")
    assert not traces.hook._runs
