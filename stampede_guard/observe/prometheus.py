"""The hook for Prometheus: see `ops.observe.prometheus`."""

from __future__ import annotations

from stampede_guard.errors import Misuse

try:
    from stampede_guard.ops.observe.prometheus import PrometheusHook
except ModuleNotFoundError as error:
    if (error.name or "").partition(".")[0] != "prometheus_client":
        raise
    raise Misuse(
        "PrometheusHook needs more packages: pip install '.[prometheus]' in a clone of the repository"
    ) from None

__all__ = ["PrometheusHook"]
