"""Leases, elections and jobs: what must run once runs once, on any number of workers and pods.

Caches fail open; leases fail closed: with the back end away nothing new starts, and what runs is told.

Why at most one holder believes: belief is counted from before the question left, for a little less than the back end
counts from when it carried the question out (`core.timing`, `core.holding`, `core.grants`). It is asked of the clock at
each look. Nothing but an answer prolongs it. What is left is what no lease can know: a process that stands still
between its look and its deed. For that there is the token, and `lease.fenced(conn)`.

The names are loaded on first use: no back end's library is imported before it is asked for.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampede_guard.errors import LeaseLost, LeaseTaken
    from stampede_guard.leases.election import Election
    from stampede_guard.leases.exclusive import SKIPPED, current_lease
    from stampede_guard.leases.house import Leases
    from stampede_guard.leases.jobs.run import Run, current_run
    from stampede_guard.leases.jobs.scheduler import Jobs
    from stampede_guard.leases.kinds import MemoryLeases, PostgresLeases, RedisLeases
    from stampede_guard.leases.lease import Lease, PlainLease
    from stampede_guard.leases.warmer import Warmer
    from stampede_guard.leases.words import Audit, LeaseView, Owner

_HOMES = {
    "SKIPPED": "leases.exclusive",
    "Audit": "leases.words",
    "Election": "leases.election",
    "Jobs": "leases.jobs.scheduler",
    "Lease": "leases.lease",
    "LeaseLost": "errors",
    "LeaseTaken": "errors",
    "LeaseView": "leases.words",
    "Leases": "leases.house",
    "MemoryLeases": "leases.kinds",
    "Owner": "leases.words",
    "PlainLease": "leases.lease",
    "PostgresLeases": "leases.kinds",
    "RedisLeases": "leases.kinds",
    "Run": "leases.jobs.run",
    "Warmer": "leases.warmer",
    "current_lease": "leases.exclusive",
    "current_run": "leases.jobs.run",
}

__all__ = [
    "SKIPPED",
    "Audit",
    "Election",
    "Jobs",
    "Lease",
    "LeaseLost",
    "LeaseTaken",
    "LeaseView",
    "Leases",
    "MemoryLeases",
    "Owner",
    "PlainLease",
    "PostgresLeases",
    "RedisLeases",
    "Run",
    "Warmer",
    "current_lease",
    "current_run",
]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'stampede_guard.leases' has no attribute {name!r}")
    return getattr(importlib.import_module(f"stampede_guard.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
