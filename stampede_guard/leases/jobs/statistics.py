"""What a job's history says: how often it succeeds, how long it takes, what it fails with, and which limit fits."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from stampede_guard.leases.runs.words import Outcome, RunView

__all__ = ["Failure", "Statistics", "statistics"]

_LIMIT_FACTOR = 2.5
"""Of the longest successful run; two to three times is what lets a slow day pass and ends a hanging run."""
_FEWEST_FOR_A_LIMIT = 5
_VARYING = re.compile(
    r"0x[0-9a-fA-F]+"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b"
    r"|(?!\b[1-5]\d\d\b)\b\d+"  # 401 and 503 are not the same failure
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Errors that differ only in numbers and ids are one pattern. `latest_slot`: when it was last seen."""

    pattern: str
    count: int
    latest_slot: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """Of the runs given. Durations in seconds, of completed runs; 0 where there are none.

    `success_rate`: completed among completed, failed, abandoned and missed; None where there are none.
    `suggested_time_limit`: None where fewer than five runs completed.
    """

    counts: dict[Outcome, int]
    success_rate: float | None
    mean: float
    p95: float
    longest: float
    suggested_time_limit: float | None
    failures: tuple[Failure, ...]


def statistics(runs: Iterable[RunView], *, most_failures: int = 10) -> Statistics:
    """One pass over a job's history, in any order."""
    counts: Counter[Outcome] = Counter()
    durations: list[float] = []
    patterns: dict[str, Failure] = {}
    for run in runs:
        counts[run.outcome] += 1
        if run.outcome == "completed":
            durations.append(max(0.0, run.finished_at - run.started_at))
        if run.outcome in ("failed", "abandoned"):
            pattern = _VARYING.sub("#", run.error.splitlines()[0] if run.error else "no error was told")
            known = patterns.get(pattern, Failure(pattern, 0, 0))
            patterns[pattern] = Failure(pattern, known.count + 1, max(known.latest_slot, run.slot))
    durations.sort()
    tried = counts["completed"] + counts["failed"] + counts["abandoned"] + counts["missed"]
    return Statistics(
        counts=dict(counts),
        success_rate=counts["completed"] / tried if tried else None,
        mean=sum(durations) / len(durations) if durations else 0.0,
        p95=durations[math.ceil(0.95 * len(durations)) - 1] if durations else 0.0,
        longest=durations[-1] if durations else 0.0,
        suggested_time_limit=_limit(durations),
        failures=tuple(sorted(patterns.values(), key=lambda failure: -failure.count)[:most_failures]),
    )


def _limit(durations: list[float]) -> float | None:
    """Rounded up to a number that somebody would write."""
    if len(durations) < _FEWEST_FOR_A_LIMIT:
        return None
    wanted = max(1.0, durations[-1] * _LIMIT_FACTOR)
    unit = 1.0 if wanted < 60 else 10.0 if wanted < 600 else 60.0
    return math.ceil(wanted / unit) * unit
