"""Ages and lifetimes: RFC 9111, 4.2."""

from __future__ import annotations

import pytest

from stampede_guard.http.spec.dates import format_date
from stampede_guard.http.spec.directives import MOST_SECONDS, effective
from stampede_guard.http.spec.freshness import (
    MOST_HEURISTIC_SECONDS,
    Lifetime,
    age_value,
    corrected_initial_age,
    lifetime,
)
from stampede_guard.http.spec.message import Fields, Response

NOW = 1_750_000_000.0


def date(offset: float) -> bytes:
    return format_date(NOW + offset)


def life(*fields: tuple[bytes, bytes], status: int = 200) -> Lifetime:
    response = Response(status, fields)
    return lifetime(response, effective(fields, (b"cdn-cache-control",)), received_at=NOW)


CC = b"cache-control"


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (((CC, b"max-age=60"),), 60),
        (((CC, b"max-age=60, s-maxage=5"),), 5),
        (((CC, b"max-age=0, s-maxage=5"), (b"expires", date(-10))), 5),
        (((CC, b"max-age=60"), (b"expires", date(-10)), (b"date", date(0))), 60),
        (((CC, b"max-age=x"), (b"expires", date(60))), 0),
        (((b"expires", date(60)), (b"date", date(0))), 60),
        (((b"expires", date(300)), (b"date", date(400))), 0),
        (((b"expires", date(60)),), 60),
        (((b"expires", b"0"), (b"last-modified", date(-100_000))), 0),
        (((b"expires", date(60)), (b"expires", date(60))), 0),
    ],
)
def test_an_explicit_lifetime(fields: Fields, expected: float) -> None:
    found = life(*fields)
    assert found.seconds == expected and found.explicit


@pytest.mark.parametrize("status", [200, 203, 204, 206, 300, 301, 308, 404, 405, 410, 414, 501])
def test_a_tenth_of_the_time_since_the_last_change_is_guessed(status: int) -> None:
    found = life((b"last-modified", date(-1000)), (b"date", date(0)), status=status)
    assert found == Lifetime(100.0, "heuristic") and not found.explicit


@pytest.mark.parametrize("status", [201, 202, 302, 303, 307, 403, 500, 502, 503, 504, 599])
def test_nothing_is_guessed_for_other_statuses_unless_they_are_public(status: int) -> None:
    fields = ((b"last-modified", date(-1000)), (b"date", date(0)))
    assert life(*fields, status=status).seconds == 0
    assert life(*fields, (CC, b"public"), status=status).seconds == 100


def test_a_guess_has_a_bound_and_needs_a_change_in_the_past() -> None:
    assert life((b"last-modified", date(-1e9))).seconds == MOST_HEURISTIC_SECONDS
    assert life((b"last-modified", date(10))).seconds == 0
    assert life((b"last-modified", b"long ago")).seconds == 0
    assert life().source == "none"


def test_with_a_targeted_field_nothing_else_counts() -> None:
    assert life((b"cdn-cache-control", b"max-age=5"), (CC, b"max-age=60")).seconds == 5
    assert life((b"cdn-cache-control", b"public"), (CC, b"max-age=60"), (b"expires", date(60))).seconds == 0


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((b"30",), 30),
        ((b"-7200",), 0),
        ((b"7200.0",), 0),
        ((b"abc",), 0),
        ((b"",), 0),
        ((b"2147483647",), 2147483647),
        ((b"2147483649",), MOST_SECONDS),
        ((b"7200, 0",), 7200),
        ((b"0, 7200",), 0),
        ((b"0", b"7200"), 0),
        ((b"7200", b"0"), 7200),
        ((b"7200;foo=1",), 7200),
        ((), 0),
    ],
)
def test_the_first_age_counts(lines: tuple[bytes, ...], expected: int) -> None:
    assert age_value(tuple((b"age", line) for line in lines)) == expected


@pytest.mark.parametrize(
    ("fields", "delay", "expected"),
    [
        ((), 2.0, 2.0),
        (((b"age", b"30"),), 2.0, 32.0),
        (((b"date", date(-100)),), 0.0, 100.0),
        (((b"date", date(-100)), (b"age", b"30")), 0.0, 100.0),
        (((b"date", date(-10)), (b"age", b"30")), 0.0, 30.0),
        (((b"date", date(500)),), 0.0, 0.0),
        (((b"date", b"yesterday"),), 0.0, 0.0),
    ],
)
def test_the_initial_age_is_the_larger_of_what_clock_and_age_say(
    fields: Fields, delay: float, expected: float
) -> None:
    assert corrected_initial_age(fields, requested_at=NOW - delay, received_at=NOW) == expected


def test_a_date_of_the_same_second_makes_no_age() -> None:
    assert corrected_initial_age(((b"date", date(0)),), requested_at=NOW + 0.9, received_at=NOW + 0.9) == 0.0
