"""Crontab lines as APScheduler 3 reads them (`CronTrigger.from_crontab`), without APScheduler.

These differences from cron are the reason why a line that moves between schedulers needs a dialect:

* 0 is Monday and 6 is Sunday; 7 is an error. Names mean the same in both.
* Day of month and day of week must both match, however they are written.
* An hour that comes twice fires twice. A missing time fires later, by as much as the clocks are put forward.
* `L` is written `last`. The rest after the name of a month or weekday is ignored: `mon-fri/2` is `mon-fri`.

The walk over the fields is APScheduler's own. So it gives the same slots when clocks change. But there its next slot
depends on where the walk begins, so workers that started at different times would have different slots. Here a slot
follows from the line alone:

* In the night of a change, each walk is one that begins before the change.
* After that night, no slot is lost. APScheduler's walk begins the next day, week or month an hour late if it comes from
  before a change to summer time, and loses the slots of that hour.
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

from stampede_guard.errors import PolicyError
from stampede_guard.jobs.schedules.realtime import change_between
from stampede_guard.jobs.schedules.zones import zone_of

__all__ = ["ApschedulerCron"]

MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
WEEKDAYS = "mon tue wed thu fri sat sun".split()
LAST_YEAR = 9999
_NIGHT = timedelta(hours=13)
"""So long after a change of clocks, slots are those of APScheduler, whose walk begins before the change."""
_RULE = "minute hour day month weekday as APScheduler 3 reads them (0 is Monday), such as '0 3 * * 0'"

_ALL = re.compile(r"\*(?:/(?P<step>\d+))?$")
_NUMBERS = re.compile(r"(?P<first>\d+)(?:-(?P<last>\d+))?(?:/(?P<step>\d+))?$")
_NAMES = re.compile(r"(?P<first>[a-z]+)(?:-(?P<last>[a-z]+))?", re.IGNORECASE)

Term = Callable[[int, int], int | None]
"""Takes a value and the greatest value of the field. Returns the first match that is not smaller, or None."""


@dataclass(frozen=True, slots=True)
class _Field:
    name: str
    least: int
    most: int
    terms: tuple[Term, ...]

    def value(self, when: datetime) -> int:
        return when.weekday() if self.name == "weekday" else int(getattr(when, self.name))

    def greatest(self, when: datetime) -> int:
        return _month_ends(when) if self.name == "day" else self.most

    def following(self, when: datetime) -> int | None:
        now, end = self.value(when), self.greatest(when)
        found = [value for term in self.terms if (value := term(now, end)) is not None]
        return min((value for value in found if value <= end), default=None)


@dataclass(frozen=True, slots=True)
class ApschedulerCron:
    """A `Schedule`. Raises `PolicyError` for a line that APScheduler refuses or that never matches.

    Raises it also for an unknown time zone.
    """

    expression: str
    zone: str = "UTC"

    def __post_init__(self) -> None:
        zone_of(self.zone)
        _fields(self.expression)
        if self.after(1_767_225_600_000) is None:
            raise PolicyError("cron", self.expression, "a line that matches some date; this one never does")

    @property
    def text(self) -> str:
        return f"{self.expression} {self.zone} as APScheduler reads it"

    def after(self, slot: int) -> int | None:
        zone = zone_of(self.zone)
        start = datetime.fromtimestamp(slot // 1000 + 1, tz=UTC)
        begin, irregular_until = _begin_of(zone, start)
        while True:
            found = _walk(_fields(self.expression), zone, begin.astimezone(zone))
            if found is None:
                return None
            later = int(found.timestamp()) * 1000
            if later > slot:
                return later
            # A missing time was moved to a later one. Go on after it, or the search would find it again.
            begin = max(begin, datetime.fromtimestamp(later // 1000, tz=UTC)) + timedelta(seconds=1)
            if start >= irregular_until:
                begin = max(begin, start)


def _begin_of(zone: ZoneInfo, start: datetime) -> tuple[datetime, datetime]:
    """Where a walk begins, and until when times are missing or double.

    In the night of a change it begins one second before the change. A walk from within that night would not see all
    slots of a walk that came from before.
    """
    early = start - _NIGHT
    if _offset(zone, early) == _offset(zone, start):
        return start, start
    change = change_between(zone, early, start)
    assert change is not None
    before = change - timedelta(seconds=1)
    return before, change + abs(_offset(zone, change) - _offset(zone, before))


def _offset(zone: ZoneInfo, when: datetime) -> timedelta:
    return when.astimezone(zone).utcoffset() or timedelta()


def _walk(fields: tuple[_Field, ...], zone: ZoneInfo, when: datetime) -> datetime | None:
    """The first wall time at or after `when` at which all fields match; None = not within fifty years."""
    last_year, at = when.year + 50, 0
    while 0 <= at < len(fields):
        if when.year > last_year:
            return None
        field = fields[at]
        following = field.following(when)
        if following is None:
            when, at = _raised(fields, zone, when, at - 1)
        elif following <= field.value(when):
            at += 1
        elif field.name == "weekday":
            when, at = _raised(fields, zone, when, at)
        else:
            when, at = _put(fields, zone, when, at, following), at + 1
    return when if at >= 0 else None


def _put(fields: tuple[_Field, ...], zone: ZoneInfo, when: datetime, at: int, value: int) -> datetime:
    """`when` with the field number `at` set to `value`, and all later fields at their least values."""
    values = {
        field.name: field.value(when) if index < at else value if index == at else field.least
        for index, field in enumerate(fields)
        if field.name != "weekday"
    }
    return _wall(values).replace(tzinfo=zone, fold=when.fold)


def _raised(fields: tuple[_Field, ...], zone: ZoneInfo, when: datetime, at: int) -> tuple[datetime, int]:
    """`when` with this field one greater, or an earlier field if this one is at its end. Also returns which field."""
    while at >= 0 and (fields[at].name == "weekday" or fields[at].value(when) >= fields[at].greatest(when)):
        at -= 1
    if at < 0:
        return when, at
    values = {
        field.name: field.value(when) + (index == at) if index <= at else field.least
        for index, field in enumerate(fields)
        if field.name != "weekday"
    }
    # Add in real time, as APScheduler does: across a clock change this gives a different wall time. After the night of
    # the change, a later one would lose slots, and only for a walk that begins before the change.
    wall = _wall(values)
    real = when.astimezone(UTC) + (wall - when.replace(tzinfo=None))
    named = wall.replace(tzinfo=zone).astimezone(UTC)
    if named < real and _offset(zone, named - _NIGHT) == _offset(zone, named):
        real = named
    return real.astimezone(zone), at


def _wall(values: dict[str, int]) -> datetime:
    return datetime(
        values["year"], values["month"], values["day"], values["hour"], values["minute"], values["second"]
    )


@lru_cache(maxsize=256)
def _fields(expression: str) -> tuple[_Field, ...]:
    words = str(expression).split()
    if len(words) != 5:
        raise PolicyError("cron", expression, f"{_RULE}; five fields")
    minute, hour, day, month, weekday = words
    try:
        return (
            _Field("year", 1970, LAST_YEAR, (_every(1970, LAST_YEAR, 1),)),
            _field("month", month, 1, 12, names=MONTHS, first_name=1),
            _field("day", day, 1, 31, last=True),
            _field("weekday", weekday, 0, 6, names=WEEKDAYS),
            _field("hour", hour, 0, 23),
            _field("minute", minute, 0, 59),
            _field("second", "0", 0, 59),
        )
    except ValueError as error:
        raise PolicyError("cron", expression, f"{_RULE}; {error}") from None


def _field(
    name: str,
    text: str,
    least: int,
    most: int,
    *,
    names: list[str] | None = None,
    first_name: int = 0,
    last: bool = False,
) -> _Field:
    terms: list[Term] = []
    for word in text.split(","):
        if last and word.lower().startswith("last"):
            terms.append(_last_day)
        elif names is not None and (found := _NAMES.match(word)):
            terms.append(_named(name, found, names, first_name))
        else:
            terms.append(_numbered(name, word, least, most))
    return _Field(name, least, most, tuple(terms))


def _named(name: str, found: re.Match[str], names: list[str], first_name: int) -> Term:
    given = [word for word in (found["first"], found["last"]) if word is not None]
    for word in given:
        if word.lower() not in names:
            raise ValueError(f"{word!r} is not a {name}")
    first, last = (first_name + names.index(word.lower()) for word in (given[0], given[-1]))
    if first > last:
        raise ValueError(f"{found[0]!r} ends before it begins")
    return _every(first, last, 1)


def _numbered(name: str, word: str, least: int, most: int) -> Term:
    """A term of numbers. `least` and `most`: the bounds of the field."""
    if found := _ALL.match(word):
        return _every(least, most, _step(word, found["step"], most - least))
    if not (found := _NUMBERS.match(word)):
        raise ValueError(f"{word!r} is not a {name}")
    first = int(found["first"])
    alone = found["last"] is None and found["step"] is None
    last = first if alone else most if found["last"] is None else int(found["last"])
    if not least <= first <= last <= most:
        raise ValueError(f"{name} {word!r} is not within {least} to {most}")
    # APScheduler measures it so: an end of 0 counts as no end.
    reach = (0 if found["last"] is None and not alone else last) or most
    return _every(first, last, _step(word, found["step"], reach - first))


def _step(word: str, step: str | None, longest: int) -> int:
    if step is None:
        return 1
    if not 0 < int(step) <= longest:
        raise ValueError(f"the step of {word!r} is not within 1 to {longest}")
    return int(step)


def _every(first: int, last: int, step: int) -> Term:
    def following(now: int, end: int) -> int | None:
        del end
        value = max(now, first)
        value += -(value - first) % step
        return value if value <= last else None

    return following


def _last_day(now: int, end: int) -> int | None:
    del now
    return end


def _month_ends(when: datetime) -> int:
    return monthrange(when.year, when.month)[1]
