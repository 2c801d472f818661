"""Leases in PostgreSQL: each step is one statement, on the database's own clock.

Needs the extra `stampede_guard[postgres]`.
"""

from __future__ import annotations
