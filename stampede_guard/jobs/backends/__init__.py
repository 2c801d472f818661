"""Slots and their runs: a slot, (job, scheduled time), is claimed once and has exactly one outcome.

They are kept where the leases are, and travel through the same connections. What a store needs is loaded with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampede_guard.jobs.backends.protocol import RunBackend

__all__ = ["runs_of"]


def runs_of(backend: Any) -> RunBackend:
    """The slots and runs of jobs beside the leases of this back end."""
    if backend.kind == "memory":
        from stampede_guard.jobs.backends.memory import runs_beside

        return runs_beside(backend.rows)
    if backend.kind == "postgres":
        from stampede_guard.jobs.backends.postgres.backend import PostgresRuns

        room, beats, schema = backend.for_runs()
        return PostgresRuns(room, beats, schema=schema)
    from stampede_guard.jobs.backends.redis.backend import RedisRuns

    scripts, trusts = backend.for_runs()
    return RedisRuns(scripts, trusts=trusts)
