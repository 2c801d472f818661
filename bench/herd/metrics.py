"""Metrics of the service: the sums of all workers, at `/metrics` of the port that they share.

A scrape reaches any of the workers. So they keep their numbers in files of one folder, `$PROMETHEUS_MULTIPROC_DIR`, and
the one that is asked adds them up: prometheus-client's multiprocess mode, as docs/operators.md shows it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, make_asgi_app
from prometheus_client.multiprocess import MultiProcessCollector

from bench.herd.fleet import METRICS_FOLDER
from stampede_guard.observe.prometheus import PrometheusHook

if TYPE_CHECKING:
    from fastapi import FastAPI

    from stampede_guard import StampedeGuard

__all__ = ["add_metrics"]


def add_metrics(app: FastAPI, guard: StampedeGuard) -> None:
    """Nothing if the runner has given no folder."""
    if METRICS_FOLDER not in os.environ:
        return
    guard.add_hook(PrometheusHook())
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    app.mount("/metrics", make_asgi_app(registry))
