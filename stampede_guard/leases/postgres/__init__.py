"""Leases in PostgreSQL: one table, one statement a step, on the database's own clock.

Needs the extra `stampede_guard[postgres]`.
"""

from __future__ import annotations
