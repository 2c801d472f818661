"""Whether what is stored may be served: RFC 9111, 4 and 5.2.1; RFC 5861."""

from __future__ import annotations

import pytest

from stampede_guard.http.spec.directives import cache_control
from stampede_guard.http.spec.message import Fields
from stampede_guard.http.spec.reuse import Situation, Verdict, asks_for_origin, may_serve_on_error, verdict

CC = b"cache-control"


def situation(control: bytes, *, age: float, lifetime: float = 60.0) -> Situation:
    return Situation(age, lifetime, cache_control(((CC, control),)))


def asked(control: bytes) -> Fields:
    return ((CC, control),)


@pytest.mark.parametrize(
    ("control", "age", "expected"),
    [
        (b"max-age=60", 59.9, "fresh"),
        (b"max-age=60", 60.0, "validate"),
        (b"max-age=60, no-cache", 1, "validate"),
        (b'max-age=60, no-cache="a"', 1, "fresh"),
        (b"max-age=60, must-revalidate", 1, "fresh"),
        (b"max-age=60, stale-while-revalidate=10", 69.9, "stale-while-revalidate"),
        (b"max-age=60, stale-while-revalidate=10", 70, "validate"),
        (b"max-age=60, stale-while-revalidate=10, must-revalidate", 61, "validate"),
        (b"s-maxage=60, stale-while-revalidate=10", 61, "stale-while-revalidate"),
    ],
)
def test_without_a_wish_of_the_client(control: bytes, age: float, expected: Verdict) -> None:
    assert verdict(situation(control, age=age), ()) == expected


@pytest.mark.parametrize(
    ("wish", "age", "expected"),
    [
        (b"no-cache", 1, "validate"),
        (b"no-store", 1, "validate"),
        (b"max-age=5", 4, "fresh"),
        (b"max-age=5", 6, "validate"),
        (b"max-age=0", 1, "validate"),
        (b"min-fresh=30", 29, "fresh"),
        (b"min-fresh=30", 31, "validate"),
        (b"max-stale", 600, "stale-asked-for"),
        (b"max-stale=10", 69, "stale-asked-for"),
        (b"max-stale=10", 71, "validate"),
        (b"max-stale=x", 61, "validate"),
        (b"max-stale=10, max-age=20", 65, "validate"),
        (b"only-if-cached", 1, "fresh"),
        (b"only-if-cached", 61, "gateway-timeout"),
        (b"nothing-to-see-here", 1, "fresh"),
    ],
)
def test_with_a_wish_of_the_client(wish: bytes, age: float, expected: Verdict) -> None:
    assert verdict(situation(b"max-age=60", age=age), asked(wish)) == expected


@pytest.mark.parametrize("control", [b"must-revalidate", b"proxy-revalidate", b"no-cache"])
def test_what_may_never_be_stale_is_not_even_for_a_client_that_would_take_it(control: bytes) -> None:
    assert verdict(situation(control, age=61), asked(b"max-stale")) == "validate"
    assert not may_serve_on_error(situation(control + b", stale-if-error=600", age=61), ())


def test_a_client_that_wants_some_freshness_left_gets_nothing_stale() -> None:
    stale = situation(b"max-age=60, stale-while-revalidate=10", age=61)
    assert verdict(stale, asked(b"min-fresh=5")) == "validate"
    assert verdict(stale, asked(b"min-fresh=0")) == "stale-while-revalidate"


def test_nothing_stored_is_a_question_or_a_time_out() -> None:
    assert verdict(None, ()) == "validate"
    assert verdict(None, asked(b"only-if-cached")) == "gateway-timeout"


def test_pragma_counts_only_without_cache_control() -> None:
    fresh = situation(b"max-age=60", age=1)
    pragma = (b"pragma", b"foo, No-Cache")
    assert verdict(fresh, (pragma,)) == "validate"
    assert verdict(fresh, (pragma, (CC, b"max-age=50"))) == "fresh"
    assert verdict(fresh, ((b"pragma", b"foo"),)) == "fresh"


@pytest.mark.parametrize(
    ("control", "wish", "default", "expected"),
    [
        (b"max-age=60", b"", 0.0, False),
        (b"max-age=60", b"", 600.0, True),
        (b"max-age=60, stale-if-error=11", b"", 0.0, True),
        (b"max-age=60, stale-if-error=10", b"", 600.0, False),
        (b"max-age=60", b"stale-if-error=11", 0.0, True),
        (b"max-age=60, stale-if-error=x", b"", 600.0, False),
    ],
)
def test_stale_if_error(control: bytes, wish: bytes, default: float, expected: bool) -> None:
    assert may_serve_on_error(situation(control, age=70), asked(wish), default=default) is expected


@pytest.mark.parametrize(
    ("wish", "expected"),
    [(b"no-cache", True), (b"no-store", True), (b"max-age=0", True), (b"max-age=1", False), (b"", False)],
)
def test_who_wants_the_origin_itself(wish: bytes, expected: bool) -> None:
    assert asks_for_origin(asked(wish)) is expected


def test_s_maxage_is_stale_for_nobody_unless_the_origin_says_so() -> None:
    assert verdict(situation(b"s-maxage=60", age=61), asked(b"max-stale")) == "validate"
    assert not may_serve_on_error(situation(b"s-maxage=60", age=61), asked(b"stale-if-error=9"), default=600)
    assert may_serve_on_error(situation(b"s-maxage=60, stale-if-error=9", age=61), ())
