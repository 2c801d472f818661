"""The age of a response and how long it is fresh (RFC 9111, 4.2)."""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

from stampede_guard.http.spec.dates import date_of
from stampede_guard.http.spec.directives import MOST_SECONDS, Directives, seconds
from stampede_guard.http.spec.fields import first, has
from stampede_guard.http.spec.message import Fields, Response

__all__ = [
    "HEURISTIC_FRACTION",
    "HEURISTIC_STATUSES",
    "MOST_HEURISTIC_SECONDS",
    "Lifetime",
    "age_value",
    "corrected_initial_age",
    "lifetime",
]

HEURISTIC_STATUSES = frozenset({200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501})
"""RFC 9110, 15.1: cacheable without explicit freshness."""
HEURISTIC_FRACTION = 0.1
"""Share of the time since the last modification: the typical setting of RFC 9111, 4.2.2."""
MOST_HEURISTIC_SECONDS = 86_400.0
"""A guessed lifetime is at most a day."""


class Lifetime(NamedTuple):
    """Seconds for which a response is fresh, counted from its origin, and the source of that number."""

    seconds: float
    source: Literal["directive", "expires", "route", "heuristic", "none"]

    @property
    def explicit(self) -> bool:
        return self.source in ("directive", "expires", "route")


def lifetime(response: Response, directives: Directives, *, received_at: float) -> Lifetime:
    """Freshness lifetime for a shared cache (RFC 9111, 4.2.1): s-maxage, max-age, Expires minus Date, a heuristic.

    An Expires that is not a date, or occurs more than once, is in the past (5.3). With a targeted field, only its
    own directives count (RFC 9213, 2.2).
    """
    for name in (b"s-maxage", b"max-age"):
        told = directives.seconds(name)
        if told is not None:
            return Lifetime(float(told), "directive")
    if directives.targeted:
        return Lifetime(0.0, "none")
    date = date_of(response.fields, b"date", now=received_at)
    sent = received_at if date is None else date
    if has(response.fields, b"expires"):
        expires = date_of(response.fields, b"expires", now=received_at)
        return Lifetime(0.0 if expires is None else max(0.0, expires - sent), "expires")
    return _heuristic(response, directives, sent, received_at)


def _heuristic(response: Response, directives: Directives, sent: float, now: float) -> Lifetime:
    """RFC 9111, 4.2.2: only for a status that is cacheable by default, or a response marked `public`."""
    modified = date_of(response.fields, b"last-modified", now=now)
    allowed = response.status in HEURISTIC_STATUSES or b"public" in directives
    if modified is None or not allowed or modified >= sent:
        return Lifetime(0.0, "none")
    return Lifetime(min((sent - modified) * HEURISTIC_FRACTION, MOST_HEURISTIC_SECONDS), "heuristic")


_AGE = re.compile(rb"([0-9]+)[ \t]*(?:;.*)?", re.DOTALL)


def age_value(fields: Fields) -> int:
    """RFC 9111, 5.1: the first member of the first line. If it is not a number, it counts as missing.

    A number with parameters counts as the number, which makes the response older rather than younger.
    """
    line = first(fields, b"age")
    if line is None:
        return 0
    found = _AGE.fullmatch(line.partition(b",")[0].strip(b" \t"))
    value = seconds(found[1]) if found is not None else None
    return 0 if value is None else value


def corrected_initial_age(fields: Fields, *, requested_at: float, received_at: float) -> float:
    """RFC 9111, 4.2.3: the larger of the age by the clocks and the Age field, plus the response's travel time. The
    age may have been correct at any moment of that time.
    """
    date = date_of(fields, b"date", now=received_at)
    apparent = 0.0 if date is None else max(0.0, received_at - date)
    delay = max(0.0, received_at - requested_at)
    # A date has whole seconds: a response within that second is not older.
    apparent = 0.0 if apparent < 1.0 else apparent
    return min(max(apparent, age_value(fields) + delay), float(MOST_SECONDS))
