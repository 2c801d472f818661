"""Leases in PostgreSQL: each step is one statement, on the database's own clock.

Needs the extra `stampede_guard[postgres]`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stampede_guard.leases.postgres.backend import PostgresBackend

__all__ = ["PostgresBackend"]


def __getattr__(name: str) -> Any:
    if name == "PostgresBackend":
        from stampede_guard.leases.postgres.backend import PostgresBackend

        return PostgresBackend
    raise AttributeError(f"module 'stampede_guard.leases.postgres' has no attribute {name!r}")
