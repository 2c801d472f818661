"""Tests that only compute: no server, no process, no thread, no time but a simulated one. They fill what others leave.

Some workers of `make test` run nothing else, and give way to all others (`os.nice`). So a test that waits, or is alone,
has the processors when it wants them, and no processor is idle meanwhile. How long such a test takes is nobody's
promise: none of them has a time-out but the one of the whole run.
"""

from __future__ import annotations

import os

__all__ = ["COMPUTING", "FEWEST", "FILLING", "NICENESS", "fills", "give_way", "only_computes"]

COMPUTING = (
    "tests/audit/fixes/test_fixes.py",
    "tests/audit/reports/",
    "tests/audit/test_prefilter.py",
    "tests/audit/test_where_paths_count.py",
    "tests/core/",
    "tests/http/test_clauses",
    "tests/jobs/test_weather.py",
    "tests/leases/core/",
    "tests/leases/simulation/",
    "tests/test_repository.py",
    "tests/traps/test_arguments_property.py",
    "tests/traps/test_leases_schedules.py",
)

FILLING = 2
"""Workers that give way. Each can fill a processor."""

FEWEST = 6
"""With fewer workers than these, none gives way: they are for a few tests, or for a machine with one processor."""

NICENESS = 5
"""A third of the time of one that does not give way, while both compute. With 19, a busy machine would starve them."""


def fills(worker: str, workers: int) -> bool:
    """Whether the worker of this name is one that gives way: the last `FILLING` of gw0, gw1, gw2, ..."""
    return workers >= FEWEST and int(worker.removeprefix("gw")) >= workers - FILLING


def give_way() -> None:
    os.nice(NICENESS)


def only_computes(nodeid: str) -> bool:
    return nodeid.startswith(COMPUTING)
