"""The hooks for OpenTelemetry: see `ops.observe.otel` and `ops.observe.otelmetrics`."""

from __future__ import annotations

from stampede_guard.errors import Misuse

try:
    from stampede_guard.ops.observe.otel import OpenTelemetryHook
    from stampede_guard.ops.observe.otelmetrics import OpenTelemetryMetrics
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "opentelemetry":
        raise
    raise Misuse(
        "the hooks for OpenTelemetry need more packages: pip install '.[otel]' in a clone of the repository"
    ) from None

__all__ = ["OpenTelemetryHook", "OpenTelemetryMetrics"]
