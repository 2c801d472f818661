"""The hooks for OpenTelemetry: see `ops.observe.otel` and `ops.observe.otelmetrics`."""

from __future__ import annotations

from stampede_guard.ops.observe.otel import OpenTelemetryHook
from stampede_guard.ops.observe.otelmetrics import OpenTelemetryMetrics

__all__ = ["OpenTelemetryHook", "OpenTelemetryMetrics"]
