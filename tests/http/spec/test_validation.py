"""Conditional requests, both ways, and what their answers change: RFC 9111, 3.2 and 4.3."""

from __future__ import annotations

import pytest

from stampede_guard.http.spec.dates import format_date
from stampede_guard.http.spec.message import Fields, Response
from stampede_guard.http.spec.updating import freshened, head_verdict
from stampede_guard.http.spec.validation import (
    conditions_for,
    is_not_modified,
    not_modified,
    same_representation,
    unconditional,
)

NOW = 1_750_000_000.0


def date(offset: float) -> bytes:
    return format_date(NOW + offset)


@pytest.mark.parametrize(
    ("asked", "etag", "expected"),
    [
        (b'"a"', b'"a"', True),
        (b'"b"', b'"a"', False),
        (b'"b", "a"', b'"a"', True),
        (b'"b","a"', b'"a"', True),
        (b'W/"a"', b'W/"a"', True),
        (b'W/"a"', b'"a"', True),
        (b'"a"', b'W/"a"', True),
        (b'"a,b"', b'"a,b"', True),
        (b'"a,b"', b'"a"', False),
        (b"*", b'"a"', True),
        (b"a", b"a", True),
        (b'"a"', b"a", False),
        (b"", b'"a"', False),
        (b'"a" "b"', b'"a"', False),
        (b'"x", "a', b'"a"', False),
        (b'"a\\", "b"', b'"b"', True),
        (b'"a\\", "b"', b'"a\\"', True),
        (b'\t"b" ,, W/"a"\t,', b'"a"', True),
        (b'"\xe4"', b'"\xe4"', True),
    ],
)
def test_if_none_match(asked: bytes, etag: bytes, expected: bool) -> None:
    assert is_not_modified(((b"if-none-match", asked),), ((b"etag", etag),), now=NOW) is expected


def test_if_none_match_goes_before_if_modified_since() -> None:
    stored = ((b"etag", b'"a"'), (b"last-modified", date(-100)))
    later = (b"if-modified-since", date(0))
    assert not is_not_modified(((b"if-none-match", b'"b"'), later), stored, now=NOW)
    assert is_not_modified(((b"if-none-match", b'"a"'), (b"if-modified-since", date(-200))), stored, now=NOW)
    assert is_not_modified((later,), stored, now=NOW)


@pytest.mark.parametrize(
    ("since", "stored", "expected"),
    [
        (date(-100), ((b"last-modified", date(-100)),), True),
        (date(-50), ((b"last-modified", date(-100)),), True),
        (date(-101), ((b"last-modified", date(-100)),), False),
        (date(-50), ((b"date", date(-100)),), True),
        (date(-50), (), False),
        (date(0), ((b"last-modified", b"lately"),), False),
        (b"once", ((b"last-modified", date(-100)),), False),
    ],
)
def test_if_modified_since(since: bytes, stored: Fields, expected: bool) -> None:
    assert is_not_modified(((b"if-modified-since", since),), stored, now=NOW) is expected


@pytest.mark.parametrize(("since", "expected"), [(-50, True), (-100, True), (-101, False)])
def test_without_any_date_the_time_of_its_arrival_is_that_of_the_last_change(
    since: float, expected: bool
) -> None:
    asked = ((b"if-modified-since", date(since)),)
    assert is_not_modified(asked, (), now=NOW, received_at=NOW - 100) is expected
    assert not is_not_modified(asked, ((b"last-modified", date(0)),), now=NOW, received_at=NOW - 100)


def test_a_304_guides_an_update_by_last_modified_where_there_is_no_tag() -> None:
    modified, targeted = (b"last-modified", date(-9)), (b"my-cache-control", b"max-age=1")
    assert not_modified(Response(200, (modified, targeted, (b"x", b"y")))).fields == (modified, targeted)
    tagged = (b"etag", b'"a"')
    assert not_modified(Response(200, (modified, tagged))).fields == (tagged,)


def test_a_304_has_the_fields_that_it_must_have_and_no_body() -> None:
    kept = ((b"etag", b'"a"'), (b"date", date(0)), (b"cache-control", b"max-age=1"), (b"vary", b"accept"))
    response = Response(200, (*kept, (b"content-type", b"text/plain"), (b"content-length", b"3")), b"abc")
    assert not_modified(response) == Response(304, kept, b"")


def test_the_conditions_of_our_own_question() -> None:
    assert conditions_for(((b"etag", b'W/"a"'), (b"last-modified", date(-5)))) == (
        (b"if-none-match", b'W/"a"'),
        (b"if-modified-since", date(-5)),
    )
    assert conditions_for(((b"etag", b'"a"'), (b"etag", b'"b"'))) == ()
    assert conditions_for(()) == ()


def test_the_clients_conditions_do_not_go_along() -> None:
    fields = ((b"if-match", b"*"), (b"accept", b"a"), (b"if-range", b'"a"'))
    assert unconditional(fields) == ((b"accept", b"a"),)


def test_an_answer_updates_what_it_names_and_nothing_about_the_content() -> None:
    stored = Response(
        200,
        ((b"a", b"1"), (b"a", b"2"), (b"b", b"3"), (b"content-type", b"x"), (b"content-length", b"3")),
        b"abc",
    )
    answer = Response(
        304,
        (
            (b"a", b"4"),
            (b"content-type", b"y"),
            (b"content-length", b"0"),
            (b"connection", b"c"),
            (b"c", b"5"),
        ),
    )
    assert freshened(stored, answer) == Response(
        200, ((b"b", b"3"), (b"content-type", b"x"), (b"content-length", b"3"), (b"a", b"4")), b"abc"
    )


@pytest.mark.parametrize(
    ("stored", "answer", "expected"),
    [
        (((b"etag", b'"a"'),), ((b"etag", b'"a"'),), "same"),
        (((b"etag", b'"a"'),), ((b"etag", b'"b"'),), "other"),
        (((b"etag", b'W/"a"'),), ((b"etag", b'W/"a"'),), "same"),
        (((b"etag", b'"a"'),), ((b"etag", b'W/"a"'),), "same"),
        (((b"etag", b'W/"a"'),), ((b"etag", b'"a"'),), "other"),
        (((b"etag", b'"a"'),), (), "unknown"),
        ((), ((b"etag", b'"a"'),), "other"),
        (((b"last-modified", b"x"),), ((b"last-modified", b"x"),), "same"),
        (((b"last-modified", b"x"),), ((b"last-modified", b"y"),), "other"),
    ],
)
def test_which_stored_response_an_answer_is_about(stored: Fields, answer: Fields, expected: str) -> None:
    assert same_representation(stored, answer) == expected


@pytest.mark.parametrize(
    ("status", "fields", "expected"),
    [
        (200, ((b"etag", b'"a"'),), "update"),
        (200, ((b"etag", b'"a"'), (b"content-length", b"3")), "update"),
        (200, ((b"etag", b'"a"'), (b"content-length", b"4")), "outdated"),
        (200, (), "other"),
        (200, ((b"content-length", b"3"),), "other"),
        (200, ((b"content-length", b"4"),), "outdated"),
        (200, ((b"etag", b'"b"'),), "outdated"),
        (204, (), "outdated"),
        (302, (), "outdated"),
        (405, (), "other"),
        (410, (), "other"),
        (503, (), "other"),
    ],
)
def test_the_answer_to_a_head(status: int, fields: Fields, expected: str) -> None:
    assert head_verdict(Response(200, ((b"etag", b'"a"'),), b"abc"), Response(status, fields)) == expected


def test_only_a_validator_of_a_head_shows_that_the_stored_body_is_current() -> None:
    dated = Response(200, ((b"last-modified", b"x"),), b"abc")
    assert head_verdict(dated, Response(200, ((b"last-modified", b"x"),))) == "update"
    assert head_verdict(dated, Response(200, ((b"last-modified", b"y"),))) == "outdated"
    assert head_verdict(dated, Response(200, ((b"content-length", b"3"),))) == "other"
