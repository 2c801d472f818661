"""The hook for Prometheus: see `ops.observe.prometheus`."""

from __future__ import annotations

from stampede_guard.ops.observe.prometheus import PrometheusHook

__all__ = ["PrometheusHook"]
