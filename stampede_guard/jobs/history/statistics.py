"""Statistics of a job's history: its success rate, durations, frequent failures, and a suggested time limit."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from stampede_guard.jobs.messages import PAUSED, Outcome, RunView

__all__ = ["ErrorPattern", "Statistics", "statistics"]

_LIMIT_FACTOR = 2.5
"""Times the longest completed run. Two to three times allows a slow day, and still ends a run that hangs."""
_FEWEST_FOR_A_LIMIT = 5
_VARYING = re.compile(
    r"0x[0-9a-fA-F]+"
    r"|\b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}\b"
    r"|(?!\b[1-5]\d\d\b)\b\d+"  # 401 and 503 are not the same failure
)


@dataclass(frozen=True, slots=True)
class ErrorPattern:
    """A pattern of errors: errors that differ only in numbers and ids. `latest_slot`: its latest slot."""

    pattern: str
    count: int
    latest_slot: int


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of the given runs. Durations are seconds, of completed runs; 0 if there are none.

    `success_rate`: the share of completed runs among the completed, failed, abandoned and missed, which are
    `tried` together; None without such runs. Slots missed through a pause are not among them but in
    `missed_while_paused`. `suggested_time_limit`: None if fewer than five runs completed.
    """

    counts: dict[Outcome, int]
    success_rate: float | None
    tried: int
    missed_while_paused: int
    mean: float
    p95: float
    longest: float
    suggested_time_limit: float | None
    failures: tuple[ErrorPattern, ...]


def statistics(runs: Iterable[RunView], *, most_failures: int = 10) -> Statistics:
    """Compute them in one pass over the runs, in any order."""
    counts: Counter[Outcome] = Counter()
    paused = 0
    durations: list[float] = []
    patterns: dict[str, ErrorPattern] = {}
    for run in runs:
        counts[run.outcome] += 1
        paused += run.outcome == "missed" and run.error == PAUSED
        if run.outcome == "completed":
            durations.append(max(0.0, run.finished_at - run.started_at))
        if run.outcome in ("failed", "abandoned"):
            pattern = _VARYING.sub("#", run.error.splitlines()[0] if run.error else "no error message")
            known = patterns.get(pattern, ErrorPattern(pattern, 0, 0))
            patterns[pattern] = ErrorPattern(pattern, known.count + 1, max(known.latest_slot, run.slot))
    durations.sort()
    tried = counts["completed"] + counts["failed"] + counts["abandoned"] + counts["missed"] - paused
    return Statistics(
        counts=dict(counts),
        success_rate=counts["completed"] / tried if tried else None,
        tried=tried,
        missed_while_paused=paused,
        mean=sum(durations) / len(durations) if durations else 0.0,
        p95=durations[math.ceil(0.95 * len(durations)) - 1] if durations else 0.0,
        longest=durations[-1] if durations else 0.0,
        suggested_time_limit=_limit(durations),
        failures=tuple(sorted(patterns.values(), key=lambda failure: -failure.count)[:most_failures]),
    )


def _limit(durations: list[float]) -> float | None:
    """The suggested time limit, rounded up to a round number."""
    if len(durations) < _FEWEST_FOR_A_LIMIT:
        return None
    wanted = max(1.0, durations[-1] * _LIMIT_FACTOR)
    unit = 1.0 if wanted < 60 else 10.0 if wanted < 600 else 60.0
    return math.ceil(wanted / unit) * unit
