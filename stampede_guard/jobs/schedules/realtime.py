"""The next real moment at which cron fields match a wall clock that is put forward and back.

Between two clock changes of a time zone, the wall clock is UTC plus a constant. So each such stretch is searched in
plain wall time, which has no gaps there. At the moment of a change the search goes on in the next stretch. A search in
steps of an hour would fail at a change of half an hour: it would miss 06:00 at Lord Howe Island.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

__all__ = ["change_between", "first_match"]

_STEP = timedelta(days=1)
"""Two clock changes of one time zone are further apart than this."""
_SECOND = timedelta(seconds=1)

Matching = Callable[[datetime], datetime | None]
"""Returns the first match after a moment of wall time, both without a time zone; None = no match follows."""


def first_match(after: Matching, zone: ZoneInfo, begin: datetime) -> datetime | None:
    """The first moment (UTC, whole seconds) later than `begin` whose wall time in `zone` matches."""
    now = begin.replace(microsecond=0)
    while True:
        offset = _offset(zone, now)
        found = after(now.replace(tzinfo=None) + offset)
        if found is None:
            return None
        match = (found - offset).replace(tzinfo=UTC)
        change = change_between(zone, now, match)
        if change is None:
            return match
        # The wall time of the change itself may match. So the search begins one second earlier, by the new clock.
        new = _offset(zone, change)
        at_change = after(change.replace(tzinfo=None) + new - _SECOND)
        if at_change is not None and (at_change - new).replace(tzinfo=UTC) == change:
            return change
        now = change


def change_between(zone: ZoneInfo, begin: datetime, end: datetime) -> datetime | None:
    """The first moment in (begin, end] at which the offset from UTC changes; whole seconds, in UTC."""
    old = _offset(zone, begin)
    early = begin
    while early < end:
        late = min(early + _STEP, end)
        if _offset(zone, late) != old:
            while late - early > _SECOND:
                middle = early + timedelta(seconds=(late - early) // _SECOND // 2)
                if _offset(zone, middle) == old:
                    early = middle
                else:
                    late = middle
            return late
        early = late
    return None


def _offset(zone: ZoneInfo, when: datetime) -> timedelta:
    return when.astimezone(zone).utcoffset() or timedelta()
