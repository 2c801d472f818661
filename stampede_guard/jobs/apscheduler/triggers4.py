"""Slots of APScheduler 4 triggers: all workers must compute the same slots independently."""

from __future__ import annotations

import copy
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from apscheduler.triggers.calendarinterval import CalendarIntervalTrigger
from apscheduler.triggers.combining import BaseCombiningTrigger
from apscheduler.triggers.cron import CronTrigger
from apscheduler.triggers.date import DateTrigger
from apscheduler.triggers.interval import IntervalTrigger

from stampede_guard.errors import Misuse
from stampede_guard.jobs.apscheduler.external import ExternalSchedule, described
from stampede_guard.jobs.schedules.schedule import slot_of

__all__ = ["kept_of", "slot_at"]

_EPOCH = datetime(1970, 1, 1)
_SAMPLE = 32
_OF_SECONDS = (CronTrigger, CalendarIntervalTrigger)


def kept_of(trigger: Any, rhythm: float) -> ExternalSchedule:
    """The schedule of a trigger. `rhythm`: seconds between two slots, 0 = take them from the trigger.

    Raises `Misuse` for an interval within a combination, because it begins in each worker at its start.
    """
    if isinstance(trigger, IntervalTrigger):
        seconds = _length(trigger).total_seconds()
        return ExternalSchedule(f"every {seconds:g} s", rhythm or seconds)
    if isinstance(trigger, DateTrigger):
        return ExternalSchedule("once", rhythm)
    if isinstance(trigger, BaseCombiningTrigger) and _has_interval(trigger):
        raise Misuse(
            f"{described(trigger)} has different slots in each worker: write two schedules, each with one trigger"
        )
    kind = type(trigger)
    # The text of an unknown trigger may change after each firing, so use the name of its class.
    text = described(trigger) if _is_known(trigger) else f"{kind.__module__}.{kind.__qualname__}"
    return ExternalSchedule(text, rhythm or _longest_gap(copy.deepcopy(trigger)))


def slot_at(trigger: Any, scheduled: datetime) -> int:
    """The slot of a scheduled time without jitter.

    The slots of an interval are the multiples of its length since 1970, whenever it began in this worker. They count in
    wall time of its time zone, as the trigger itself counts. A cron expression has whole seconds, but its trigger adds
    the fraction of the second at which it was created.
    """
    if isinstance(trigger, IntervalTrigger):
        return _multiple(trigger, scheduled)
    slot = slot_of(scheduled)
    return slot // 1000 * 1000 if _is_of_seconds(trigger) else slot


def _multiple(trigger: Any, scheduled: datetime) -> int:
    zone = trigger.start_time.tzinfo
    if isinstance(zone, timezone):
        # A fixed offset: workers that began before and after a clock change have different offsets.
        zone = UTC
    on_the_wall = scheduled.astimezone(zone).replace(tzinfo=None)
    begun = on_the_wall - (on_the_wall - _EPOCH) % _length(trigger)
    return slot_of(begun.replace(tzinfo=zone))


def _length(trigger: Any) -> timedelta:
    units = ("weeks", "days", "hours", "minutes", "seconds", "microseconds")
    return timedelta(**{unit: getattr(trigger, unit) for unit in units})


def _longest_gap(trigger: Any) -> float:
    """The longest gap between some firings from now on, in seconds; 0 if the trigger fires once, or raises an error."""
    longest, earlier = 0.0, None
    for _ in range(_SAMPLE):
        try:
            following = trigger.next()
        except Exception:
            # A trigger of the application or a library. Ignore its error: the job then has no rhythm.
            return 0.0
        if following is None:
            break
        if earlier is not None:
            longest = max(longest, (following - earlier).total_seconds())
        earlier = following
    return float(round(longest))


def _is_known(trigger: Any) -> bool:
    if isinstance(trigger, BaseCombiningTrigger):
        return all(_is_known(one) for one in trigger.triggers)
    return isinstance(trigger, (*_OF_SECONDS, DateTrigger))


def _is_of_seconds(trigger: Any) -> bool:
    if isinstance(trigger, BaseCombiningTrigger):
        return all(_is_of_seconds(one) for one in trigger.triggers)
    return isinstance(trigger, _OF_SECONDS)


def _has_interval(trigger: Any) -> bool:
    return any(
        isinstance(one, IntervalTrigger) or (isinstance(one, BaseCombiningTrigger) and _has_interval(one))
        for one in trigger.triggers
    )
