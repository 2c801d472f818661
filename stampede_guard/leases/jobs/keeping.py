"""How long a history is kept, and how long may be asked about it."""

from __future__ import annotations

__all__ = ["KEEP", "KEEP_FOR", "FIRST_PRUNE", "OPERATOR_TIMEOUT", "PRUNE_EVERY"]

KEEP = 1_000
"""Runs of a job, at least; `runs.rules.MOST_RUNS` at most."""
KEEP_FOR = 30 * 86_400.0
"""Seconds."""
PRUNE_EVERY = 3_600.0
FIRST_PRUNE = 300.0
"""Seconds after the start: a process that is replaced every hour prunes as well."""
OPERATOR_TIMEOUT = 5.0
