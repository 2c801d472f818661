"""The commands, each with the sentence that `--help` lists. A module is imported when its command is called.

So `stampede-guard audit` imports neither Redis nor the runtime. Each module has `register(app)`. It adds the
module's command, or several below one name, to the `typer.Typer` that it gets.
"""

from __future__ import annotations

import importlib
from typing import Any

__all__ = ["COMMANDS", "load"]

COMMANDS = {
    "doctor": "Check reachability, latency, rights, eviction, memory, clock, cluster and versions.",
    "keys": "List entries: fresh or stale, for how long each, token, size, lease, waiters.",
    "show": "All parts of one entry: value, failure, record, lease, waiters, fallback slots.",
    "explain": "Split the name of an entry: namespace, function, version, parameters.",
    "invalidate": "Drop entries.",
    "purge": "Drop responses of the HTTP cache by URL, by the beginning of their URLs, or by group.",
    "urls": "List the URLs of responses that the HTTP cache has stored.",
    "stats": "What the fleet did: calls, hit rate, computations, and those that were saved.",
    "top": "What the fleet does now: rates, hit rates, hottest entries, faults.",
    "console": "Show a running fleet in a browser.",
    "mode": "Switch modes for all processes.",
    "dashboards": "Write alert rules for Prometheus and a dashboard for Grafana.",
    "leases": "Leases, elections included: which process holds what, and which processes wait.",
    "jobs": "Jobs: their schedules, their history, and whether they are healthy.",
    "audit": "Find unlocked caches in source code; `explain SG201` describes a rule.",
}


_ROOMS = {"purge": "responses.", "urls": "responses."}


def load(name: str) -> Any:
    """The module of a command."""
    return importlib.import_module(f"{__name__}.{_ROOMS.get(name, '')}{name}")
