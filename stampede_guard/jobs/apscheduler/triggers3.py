"""Slots of APScheduler 3 triggers: all workers must compute the same slots independently."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.triggers.combining import BaseCombiningTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from stampede_guard.errors import Misuse
from stampede_guard.jobs.apscheduler.external import ExternalSchedule, described
from stampede_guard.jobs.schedules.schedule import slot_of

__all__ = ["kept_of", "slot_at"]

_SAMPLE_FROM = datetime(2026, 1, 1, tzinfo=UTC)
_SAMPLE = 32
_MOST_IN_JITTER = 10_000
"""The most firings to check between the earliest time that jitter allows and the firing itself."""


def kept_of(trigger: Any) -> ExternalSchedule:
    """The schedule of a trigger.

    Raises `Misuse` for an interval within a combination, because it begins in each worker at its start.
    """
    if isinstance(trigger, IntervalTrigger):
        return ExternalSchedule(f"every {trigger.interval_length:g} s", trigger.interval_length)
    if isinstance(trigger, DateTrigger):
        # Leave out the moment: if none was given, it differs between workers.
        return ExternalSchedule("once")
    if isinstance(trigger, BaseCombiningTrigger) and _has_interval(trigger):
        raise Misuse(f"{trigger} has different slots in each worker: write two jobs, each with one trigger")
    return ExternalSchedule(
        described(trigger, getattr(trigger, "timezone", "")), _longest_gap(_bare(trigger))
    )


def slot_at(trigger: Any, run_time: datetime) -> int:
    """The slot of a firing: its scheduled time without this worker's jitter.

    The slots of an interval are the multiples of its length since 1970, whenever it began in this worker.
    """
    if isinstance(trigger, IntervalTrigger):
        step: int = max(1, round(trigger.interval_length * 1000))
        return slot_of(run_time) // step * step
    jitter = _jitter(trigger)
    return slot_of(_before_jitter(_bare(trigger), run_time, jitter) if jitter else run_time)


def _before_jitter(bare: Any, run_time: datetime, jitter: float) -> datetime:
    """The latest time of the schedule without jitter that can have led to this firing; if none can, `run_time`."""
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
    """The longest gap between some firings, in seconds; 0 if the trigger fires once, or raises an error."""
    longest, earlier, now = 0.0, None, _SAMPLE_FROM
    for _ in range(_SAMPLE):
        try:
            following = bare.get_next_fire_time(earlier, now)
        except Exception:
            # A trigger of the application or a library. Ignore its error: the job then has no rhythm.
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
    """The greatest jitter of a firing, in seconds."""
    inner = max((_jitter(one) for one in getattr(trigger, "triggers", ())), default=0.0)
    return inner + float(getattr(trigger, "jitter", None) or 0.0)


def _has_interval(trigger: Any) -> bool:
    return any(
        isinstance(one, IntervalTrigger) or (isinstance(one, BaseCombiningTrigger) and _has_interval(one))
        for one in trigger.triggers
    )
