"""Leases, elections and jobs: work that must run once runs once, on any number of workers and pods.

Caches fail open, leases fail closed. While the back end is away, nothing new starts, and running work gets a signal.

*Belief* is the time during which a holder assumes that it has the lease. Why at most one holder believes at a time:

* The holder counts from before it sent the request. The back end counts from when it executed the request, which is
  later. The holder also counts a little less time (`core.timing`, `core.holding`, `core.grants`).
* Each check compares the deadline with the clock. Only an answer of the back end extends the deadline.

One case remains that no lease can detect: a process is suspended between its check and its write. Use the token or
`lease.fenced(conn)` for such writes.

Names are loaded on first use, so a back end's library is imported only when it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampede_guard.errors import LeaseLost, LeaseTaken
    from stampede_guard.jobs.run import Run, current_run
    from stampede_guard.jobs.scheduler import Jobs
    from stampede_guard.leases.client import Leases
    from stampede_guard.leases.election import Election
    from stampede_guard.leases.exclusive import SKIPPED, current_lease
    from stampede_guard.leases.kinds import MemoryLeases, PostgresLeases, RedisLeases
    from stampede_guard.leases.lease import Lease, PlainLease
    from stampede_guard.leases.messages import Audit, LeaseView, Owner
    from stampede_guard.leases.warmer import Warmer

_HOMES = {
    "SKIPPED": "leases.exclusive",
    "Audit": "leases.messages",
    "Election": "leases.election",
    "Jobs": "jobs.scheduler",
    "Lease": "leases.lease",
    "LeaseLost": "errors",
    "LeaseTaken": "errors",
    "LeaseView": "leases.messages",
    "Leases": "leases.client",
    "MemoryLeases": "leases.kinds",
    "Owner": "leases.messages",
    "PlainLease": "leases.lease",
    "PostgresLeases": "leases.kinds",
    "RedisLeases": "leases.kinds",
    "Run": "jobs.run",
    "Warmer": "leases.warmer",
    "current_lease": "leases.exclusive",
    "current_run": "jobs.run",
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
