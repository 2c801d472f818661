"""The buckets of the histograms, the same for Prometheus and OpenTelemetry."""

from __future__ import annotations

__all__ = ["SECONDS", "SIZES", "STORE_SECONDS"]

SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
STORE_SECONDS = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
"""A server in the same rack answers within half a millisecond."""
SIZES = (256, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304)
"""In bytes. One of them is the default of `inline_bytes`, and one is above the default of `max_value_bytes`."""
