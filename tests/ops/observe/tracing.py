"""A process that traces: `python -m tests.ops.observe.tracing URL NAMESPACE`.

It reads a line for each entry to compute, says `computing`, and reads another line. Then the computation ends, and it
prints the computation's trace and span.
"""

from __future__ import annotations

import asyncio
import json
import sys

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from stampede_guard import StampedeGuard
from stampede_guard.ops.observe.otel import OpenTelemetryHook

LARGE = 200_000


def outcome_of(kind: str) -> str:
    """The value, or the failure, of the entry with this name."""
    if kind == "failure":
        raise LookupError(kind)
    return kind if kind == "small" else kind * LARGE


async def main(url: str, namespace: str) -> None:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    hook = OpenTelemetryHook(provider.get_tracer("test"))
    async with StampedeGuard.from_url(url, namespace=namespace, hooks=(hook,)) as guard:

        @guard.locked_cache(ttl=60, name="report", error_ttl=5)
        async def report(kind: str) -> str:
            print("computing", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
            return outcome_of(kind)

        while line := await asyncio.to_thread(sys.stdin.readline):
            await asyncio.gather(report(line.strip()), return_exceptions=True)
            (span,) = [span for span in exporter.get_finished_spans() if span.name == "compute report"]
            exporter.clear()
            print(json.dumps([span.context.trace_id, span.context.span_id]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
