"""How long the history is kept, and the time-out of requests from operators."""

from __future__ import annotations

__all__ = ["KEEP", "KEEP_FOR", "FIRST_PRUNE", "OPERATOR_TIMEOUT", "PRUNE_EVERY"]

KEEP = 1_000
"""Prune keeps at least so many runs of a job, and at most `runs.rules.MOST_RUNS`."""
KEEP_FOR = 30 * 86_400.0
"""Seconds. Runs that are younger than this are kept as well."""
PRUNE_EVERY = 3_600.0
FIRST_PRUNE = 300.0
"""Seconds after the start. So a process that is replaced every hour prunes, too."""
OPERATOR_TIMEOUT = 5.0
