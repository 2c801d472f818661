"""HTTP dates (RFC 9110, 5.6.7): three formats are read, strictly, and one is written."""

from __future__ import annotations

import calendar
import re
import time

from stampede_guard.http.spec.fields import lines
from stampede_guard.http.spec.message import Fields

__all__ = ["date_of", "format_date", "parse_date"]

_MONTHS = {name: number for number, name in enumerate(calendar.month_abbr) if name}
_DAYS = "|".join(calendar.day_abbr)
_LONG_DAYS = "|".join(calendar.day_name)
_MONTH = "|".join(_MONTHS)
_TIME = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
# In any case: the grammar requires one case, but a cache should be lenient (RFC 9111, 4.2).
_FORMATS = tuple(
    re.compile(text, re.IGNORECASE | re.ASCII)
    for text in (
        rf"(?:{_DAYS}), (?P<day>\d\d) (?P<month>{_MONTH}) (?P<year>\d{{4}}) {_TIME} GMT",
        rf"(?:{_LONG_DAYS}), (?P<day>\d\d)-(?P<month>{_MONTH})-(?P<short>\d\d) {_TIME} GMT",
        rf"(?:{_DAYS}) (?P<month>{_MONTH}) (?P<day>\d\d| \d) {_TIME} (?P<year>\d{{4}})",
    )
)


def parse_date(text: bytes, *, now: float) -> float | None:
    """Seconds since the epoch; None if it is not a date. `now` decides the century of a two-digit year: a date more
    than 50 years ahead is in the past (RFC 9110, 5.6.7).
    """
    try:
        written = text.decode("ascii")
    except UnicodeDecodeError:
        return None
    for form in _FORMATS:
        found = form.fullmatch(written)
        if found is not None:
            return _moment(found.groupdict(), now)
    return None


def _moment(parts: dict[str, str | None], now: float) -> float | None:
    if parts.get("year") is not None:
        year = int(parts["year"] or 0)
    else:
        this_year = time.gmtime(now).tm_year
        year = this_year // 100 * 100 + int(parts["short"] or 0)
        if year > this_year + 50:
            year -= 100
    month = _MONTHS[(parts["month"] or "").capitalize()]
    day, hour, minute, second = (int(parts[name] or 0) for name in ("day", "hour", "minute", "second"))
    if (
        year < 1
        or not 1 <= day <= calendar.monthrange(year, month)[1]
        or hour > 23
        or minute > 59
        or second > 60
    ):
        return None
    return float(calendar.timegm((year, month, day, hour, minute, second)))


def date_of(fields: Fields, name: bytes, *, now: float) -> float | None:
    """The date of a field that may occur once only. None if it is missing, malformed, or occurs more than once."""
    found = lines(fields, name)
    return parse_date(found[0], now=now) if len(found) == 1 else None


def format_date(moment: float) -> bytes:
    """IMF-fixdate, whatever the locale."""
    parts = time.gmtime(moment)
    day, month = calendar.day_abbr[parts.tm_wday], calendar.month_abbr[parts.tm_mon]
    return (
        f"{day}, {parts.tm_mday:02} {month} {parts.tm_year:04} "
        f"{parts.tm_hour:02}:{parts.tm_min:02}:{parts.tm_sec:02} GMT"
    ).encode("ascii")
