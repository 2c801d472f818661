"""What a trigger of APScheduler 3 says of slots: all workers must come to the same ones by themselves."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.triggers.combining import BaseCombiningTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from stampede_guard.errors import Misuse
from stampede_guard.leases.jobs.foreign import Kept, described
from stampede_guard.leases.jobs.schedule import slot_of

__all__ = ["kept_of", "slot_at"]

_SAMPLE_FROM = datetime(2026, 1, 1, tzinfo=UTC)
_SAMPLE = 32
_MOST_IN_JITTER = 10_000
"""Firings looked at between a firing and where its jitter may have begun."""


def kept_of(trigger: Any) -> Kept:
    """Raises `Misuse` for an interval within a combination: it begins in each worker when that was started."""
    if isinstance(trigger, IntervalTrigger):
        return Kept(f"every {trigger.interval_length:g} s", trigger.interval_length)
    if isinstance(trigger, DateTrigger):
        # Without its moment: where none was given that is another in each worker.
        return Kept("once")
    if isinstance(trigger, BaseCombiningTrigger) and _has_interval(trigger):
        raise Misuse(f"{trigger} has slots of its own in each worker: write two jobs, each with one trigger")
    return Kept(described(trigger, getattr(trigger, "timezone", "")), _longest_gap(_bare(trigger)))


def slot_at(trigger: Any, run_time: datetime) -> int:
    """The slot of a firing: its scheduled time, without what chance has added in this worker.

    An interval has the multiples of its length since 1970, whenever it began in this worker.
    """
    if isinstance(trigger, IntervalTrigger):
        step: int = max(1, round(trigger.interval_length * 1000))
        return slot_of(run_time) // step * step
    jitter = _jitter(trigger)
    return slot_of(_before_jitter(_bare(trigger), run_time, jitter) if jitter else run_time)


def _before_jitter(bare: Any, run_time: datetime, jitter: float) -> datetime:
    """The last firing of the schedule itself that this one can have come from; if there is none, it is its own."""
    found, fired = None, run_time.astimezone(UTC)
    following = bare.get_next_fire_time(None, fired - timedelta(seconds=jitter))
    for _ in range(_MOST_IN_JITTER):
        if following is None or following.astimezone(UTC) > fired:
            break
        found, following = following, bare.get_next_fire_time(following, fired)
    if found is None or fired - found.astimezone(UTC) > timedelta(seconds=jitter):
        return run_time
    return found  # type: ignore[no-any-return]


def _longest_gap(bare: Any) -> float:
    """In seconds, over some firings; 0 for what fires once, or where a trigger cannot be asked."""
    longest, earlier, now = 0.0, None, _SAMPLE_FROM
    for _ in range(_SAMPLE):
        try:
            following = bare.get_next_fire_time(earlier, now)
        except Exception:
            # A trigger of somebody else's, which it is not ours to judge: it has no rhythm then.
            return 0.0
        if following is None or following == earlier:
            break
        if earlier is not None:
            longest = max(longest, (following - earlier).total_seconds())
        now = earlier = following
    return longest


def _bare(trigger: Any) -> Any:
    """The same trigger without jitter."""
    if isinstance(trigger, BaseCombiningTrigger):
        bare = copy.copy(trigger)
        bare.triggers, bare.jitter = [_bare(one) for one in trigger.triggers], None
        return bare
    if getattr(trigger, "jitter", None):
        bare = copy.copy(trigger)
        bare.jitter = None
        return bare
    return trigger


def _jitter(trigger: Any) -> float:
    """In seconds: the most that chance may add to a firing."""
    inner = max((_jitter(one) for one in getattr(trigger, "triggers", ())), default=0.0)
    return inner + float(getattr(trigger, "jitter", None) or 0.0)


def _has_interval(trigger: Any) -> bool:
    return any(
        isinstance(one, IntervalTrigger) or (isinstance(one, BaseCombiningTrigger) and _has_interval(one))
        for one in trigger.triggers
    )
