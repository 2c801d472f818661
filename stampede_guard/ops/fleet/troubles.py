"""What went wrong in a fleet in the last minutes, as sentences: pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stampede_guard.jobs.history.deadman import overdue
from stampede_guard.jobs.messages import JobView
from stampede_guard.stores.fleet.stream import Happening

__all__ = ["RECENT_SECONDS", "job_troubles", "recent_troubles"]

RECENT_SECONDS = 300.0
MOST_NAMES = 3
"""In one sentence."""
LONGEST_NAME = 100

_SENTENCES = {
    "lease lost": "leases were lost",
    "lapsed": "leases lapsed during computations",
    "not stored": "values were not stored",
    "job ended": "jobs failed",
}
_GOOD_ENDS = ("completed", "skipped")


def recent_troubles(happened: Iterable[Happening], now: float) -> list[str]:
    """From the fleet's stream, a sentence for each kind. `now`: seconds since 1970, by the server's clock."""
    names: dict[str, list[str]] = {}
    for one in happened:
        if one.kind not in _SENTENCES or now - one.at > RECENT_SECONDS:
            continue
        if one.kind != "job ended" or one.detail.get("outcome") not in _GOOD_ENDS:
            names.setdefault(one.kind, []).append(one.function)
    return [_recent(what, names[kind]) for kind, what in _SENTENCES.items() if kind in names]


def job_troubles(views: Sequence[JobView], *, prefix: str) -> list[str]:
    """From the back end of the jobs, so also without a viewer at that time. `prefix`: left out of names."""
    late = [health.job.removeprefix(prefix) for health in overdue(views)]
    failed = [
        view.job.removeprefix(prefix)
        for view in views
        if view.last_failure_at and view.at - view.last_failure_at <= RECENT_SECONDS
    ]
    found = [f"jobs are overdue: {_listed(late)}"] if late else []
    return found + ([_recent(_SENTENCES["job ended"], failed)] if failed else [])


def _recent(what: str, names: Iterable[str]) -> str:
    told = _listed(names)
    return f"{what} in the last {RECENT_SECONDS / 60:.0f} minutes{': ' if told else ''}{told}"


def _listed(names: Iterable[str]) -> str:
    """Each once."""
    known = [name[:LONGEST_NAME] for name in dict.fromkeys(names) if name]
    more = [f"{len(known) - MOST_NAMES} more"] if len(known) > MOST_NAMES else []
    return ", ".join([*known[:MOST_NAMES], *more])
