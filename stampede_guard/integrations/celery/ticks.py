"""The slot of a tick: every beat that sends it must compute the same one."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from datetime import date, datetime, time, timedelta
from typing import Any

from celery.schedules import crontab, schedule

from stampede_guard.errors import Misuse
from stampede_guard.jobs.apscheduler.external import ExternalSchedule

__all__ = ["kept_of", "slot_at"]

_LONGEST = 366 * 41
"""Days to look back. 29 February may be a given day of the week after 40 years."""
_SAMPLE_FROM = date(2026, 1, 1)
_SAMPLE_DAYS = 366 * 4


def slot_at(due: Any, now: float) -> int:
    """The scheduled time of a tick that is sent at `now`, in milliseconds since 1970.

    1. A beat sends the tick of 03:00 in time. 2. Another beat starts at 09:00, finds 03:00 in its own file as not
    sent, and sends it. Both have the slot 03:00, because it is the last time of the schedule before `now`.

    An interval begins in each beat at its start. So its slots are the multiples of its length since 1970. Raises
    `Misuse` for a schedule that is neither a `crontab` nor an interval.
    """
    if isinstance(due, crontab):
        return _last_time(due, now)
    step: int = _step(due)
    return round(now * 1000) // step * step


def kept_of(due: Any) -> ExternalSchedule:
    """The schedule for the back end, with the longest time between two slots."""
    if isinstance(due, crontab):
        days = (tuple(sorted(found)) for found in (due.month_of_year, due.day_of_month, due.day_of_week))
        gap = _longest_gap(*days, tuple(_minutes(due)))
        return ExternalSchedule(f"{due!r} {due.tz}", gap)
    seconds = _step(due) / 1000
    return ExternalSchedule(f"every {seconds:g} s", seconds)


def _step(due: Any) -> int:
    if not isinstance(due, schedule) or due.seconds < 0.001:
        raise Misuse(
            f"once_per_slot cannot tell the slots of {due!r}: write crontab(...) or an interval in the beat schedule"
        )
    step: int = round(due.seconds * 1000)
    return step


def _last_time(due: crontab, now: float) -> int:
    today = datetime.fromtimestamp(now, due.tz).date()
    for back in range(_LONGEST):
        day = today - timedelta(days=back)
        if found := [moment for moment in _times(due, day) if moment <= now]:
            return round(max(found)) * 1000
    raise Misuse(f"{due!r} has no time in the last {_LONGEST // 366} years")


def _times(due: crontab, day: date) -> Iterator[float]:
    """When clocks are put back, an hour comes twice. Both are times of the schedule."""
    if not _has(day, due.month_of_year, due.day_of_month, due.day_of_week):
        return
    for minutes in _minutes(due):
        local = datetime.combine(day, time(minutes // 60, minutes % 60), due.tz)
        yield local.timestamp()
        yield local.replace(fold=1).timestamp()


def _minutes(due: crontab) -> list[int]:
    return sorted(hour * 60 + minute for hour in due.hour for minute in due.minute)


def _has(day: date, months: Any, days: Any, weekdays: Any) -> bool:
    return day.month in months and day.day in days and day.isoweekday() % 7 in weekdays


@functools.lru_cache(maxsize=256)
def _longest_gap(months: Any, days: Any, weekdays: Any, minutes: tuple[int, ...]) -> float:
    """In seconds, over four years; 0 = unknown."""
    every = [_SAMPLE_FROM + timedelta(days=number) for number in range(_SAMPLE_DAYS)]
    dates = [day for day in every if _has(day, months, days, weekdays)]
    if len(dates) < 2 or not minutes:
        return 0.0
    within = max((later - earlier for earlier, later in itertools.pairwise(minutes)), default=0)
    apart = max((later - earlier).days for earlier, later in itertools.pairwise(dates))
    return 60.0 * max(within, apart * 1440 - (minutes[-1] - minutes[0]))
