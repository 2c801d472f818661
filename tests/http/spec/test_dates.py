"""HTTP dates: three formats, strictly."""

from __future__ import annotations

import calendar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stampede_guard.http.spec.dates import date_of, format_date, parse_date

NOW = float(calendar.timegm((2026, 6, 1, 0, 0, 0)))
MOMENT = float(calendar.timegm((2050, 8, 18, 2, 1, 18)))


@pytest.mark.parametrize(
    "text",
    [
        b"Thu, 18 Aug 2050 02:01:18 GMT",
        b"Thursday, 18-Aug-50 02:01:18 GMT",
        b"Thu Aug 18 02:01:18 2050",
        b"Thu, 18 AUG 2050 02:01:18 GMT",
        b"thu, 18 aug 2050 02:01:18 gmt",
    ],
)
def test_the_three_formats_are_read_in_any_case(text: bytes) -> None:
    assert parse_date(text, now=NOW) == MOMENT


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"0",
        b"-1",
        b"Thu 18 Aug 2050 02:01:18 GMT",
        b"Thu, 18-Aug-2050 02:01:18 GMT",
        b"Thu, 18 Aug 2050 2:01:18 GMT",
        b"Thu, 18 Aug 2050 02:01:18",
        b"Thu, 18 Aug 2050 02:01:18 UTC",
        b"Thu, 18 Aug 2050 02:01:18 AEST",
        b"Thu, 18 Aug 50 02:01:18 GMT",
        b"Thu, 18  Aug 2050 02:01:18 GMT",
        b"Thu, 18 Aug 2050 02.01.18 GMT",
        b"Thu, 32 Aug 2050 02:01:18 GMT",
        b"Thu, 18 Foo 2050 02:01:18 GMT",
        b"Thu, 18 Aug 2050 24:01:18 GMT",
        b"Thu, 18 Aug 2050 02:01:18 GMT, Thu, 18 Aug 2050 02:01:18 GMT",
        "Thu, 18 Aug 2050 02:01:1٨ GMT".encode(),
        b"Thu, 30 Feb 2050 02:01:18 GMT",
    ],
)
def test_what_is_no_date_is_none(text: bytes) -> None:
    assert parse_date(text, now=NOW) is None


@pytest.mark.parametrize("zone", [b"GMT", b"gmt", b"Gmt"])
def test_the_zone_is_read_in_any_case_as_a_cache_should(zone: bytes) -> None:
    assert parse_date(b"Thu, 18 Aug 2050 02:01:18 " + zone, now=NOW) == MOMENT
    assert parse_date(b"Thursday, 18-Aug-50 02:01:18 " + zone, now=NOW) == MOMENT


def test_a_short_year_is_at_most_fifty_years_ahead() -> None:
    assert parse_date(b"Monday, 01-Jun-76 00:00:00 GMT", now=NOW) == calendar.timegm((2076, 6, 1, 0, 0, 0))
    assert parse_date(b"Wednesday, 01-Jun-77 00:00:00 GMT", now=NOW) == calendar.timegm((1977, 6, 1, 0, 0, 0))


def test_a_field_that_stands_twice_has_no_date() -> None:
    line = (b"expires", b"Thu, 18 Aug 2050 02:01:18 GMT")
    assert date_of((line,), b"expires", now=NOW) == MOMENT
    assert date_of((line, line), b"expires", now=NOW) is None


@given(st.integers(min_value=0, max_value=253402300799))
def test_what_is_written_is_read_again(moment: int) -> None:
    assert parse_date(format_date(moment), now=NOW) == moment
