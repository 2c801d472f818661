"""Two processes: what waits in one has a link to the computation's span in the other."""

from __future__ import annotations

import asyncio
import json
import sys
from asyncio.subprocess import PIPE
from contextvars import copy_context

import pytest
import redis.asyncio
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from stampede_guard import StampedeGuard, events
from stampede_guard.engine.hooks import Hooks
from stampede_guard.ops.observe.otel import OpenTelemetryHook
from tests.ops.dashboards.test_files import ROOT
from tests.ops.observe.test_otel import Traces
from tests.ops.observe.tracing import outcome_of
from tests.support.gate import soon
from tests.support.sessions import patient
from tests.support.twins import TRACE


async def waits_elsewhere(client: redis.asyncio.Redis, entry: str) -> None:
    while not await client.scard(f"{{{entry}}}:w"):  # noqa: ASYNC110 - no event tells of it
        await asyncio.sleep(0)


async def test_a_waiting_request_is_linked_to_the_computation_in_another_process(
    valkey_url: str, valkey: redis.asyncio.Redis, namespace: str
) -> None:
    command = [sys.executable, "-m", "tests.ops.observe.tracing", valkey_url, namespace]
    holder = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
    assert holder.stdin is not None and holder.stdout is not None
    traces = Traces()
    guard = StampedeGuard.from_url(patient(valkey_url), namespace=namespace, hooks=(traces.hook,))

    @guard.locked_cache(ttl=60, name="report", error_ttl=5)
    async def report(kind: str) -> str:
        raise AssertionError("the other process computes")

    for kind in ("small", "large", "failure"):
        holder.stdin.write(f"{kind}\n".encode())
        assert await soon(holder.stdout.readline()) == b"computing\n"
        with traces.tracer.start_as_current_span(f"request {kind}"):
            waiting = asyncio.create_task(report(kind))
        await soon(waits_elsewhere(valkey, guard.prefix + report.key(kind).partition(":")[2]))
        holder.stdin.write(b"\n")
        trace_id, span_id = json.loads(await soon(holder.stdout.readline()))
        if kind == "failure":
            with pytest.raises(LookupError):
                await soon(waiting)
        else:
            assert await soon(waiting) == outcome_of(kind)
        (span,), (request,) = traces.named("wait report"), traces.named(f"request {kind}")
        assert span.parent is not None and span.parent.span_id == request.context.span_id
        (context,) = [link.context for link in span.links]
        assert (context.trace_id, context.span_id, context.is_remote) == (trace_id, span_id, True)
        traces.exporter.clear()
    holder.stdin.close()
    assert await soon(holder.wait()) == 0
    await guard.aclose()


def test_an_unsampled_computation_and_one_that_is_not_known_have_no_traceparent() -> None:
    hook = OpenTelemetryHook(TracerProvider(sampler=ALWAYS_OFF).get_tracer("test"))
    # In a context of its own, as the engine does: the hook makes its span the current one.
    copy_context().run(hook, events.Started("f", "e", "1"))
    assert hook.traceparent("1") is None and hook.traceparent("2") is None


def test_the_first_hook_with_a_traceparent_is_asked_and_none_can_do_harm() -> None:
    class Tracer:
        def __init__(self, answer: object) -> None:
            self.answer, self.asked = answer, list[str]()

        def __call__(self, event: events.Event) -> None: ...

        def traceparent(self, flight: str) -> object:
            self.asked.append(flight)
            if isinstance(self.answer, BaseException):
                raise self.answer
            return self.answer

    tracers = [Tracer(answer) for answer in (SystemExit(), None, "no traceparent", TRACE, TRACE)]
    hooks = Hooks(tracers)
    assert hooks.traceparent_of("7") == TRACE
    assert [tracer.asked for tracer in tracers] == [["7"]] * 4 + [[]]
    assert Hooks([print]).traceparent_of("7") == ""
    hooks.remove(tracers[3])
    hooks.remove(tracers[4])
    assert hooks.traceparent_of("7") == ""
