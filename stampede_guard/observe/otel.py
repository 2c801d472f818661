"""The hook for OpenTelemetry: see `ops.observe.otel`."""

from __future__ import annotations

from stampede_guard.ops.observe.otel import OpenTelemetryHook

__all__ = ["OpenTelemetryHook"]
