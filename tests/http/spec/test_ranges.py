"""Byte ranges: RFC 9110, 14; RFC 9111, 3.3 and 3.4."""

from __future__ import annotations

import pytest

from stampede_guard.http.spec.message import Response
from stampede_guard.http.spec.ranges import (
    ContentRange,
    content_range,
    if_range_holds,
    partial,
    requested_range,
    unsatisfiable,
)

WHOLE = Response(200, ((b"content-length", b"10"), (b"a", b"1")), b"0123456789")


def served(header: bytes, stored: Response = WHOLE, held: ContentRange | None = None) -> Response | None:
    wanted = requested_range(((b"range", header),))
    return None if wanted is None else partial(stored, held, wanted)


@pytest.mark.parametrize(
    ("header", "body", "told"),
    [
        (b"bytes=0-0", b"0", b"bytes 0-0/10"),
        (b"bytes=2-5", b"2345", b"bytes 2-5/10"),
        (b"bytes=7-", b"789", b"bytes 7-9/10"),
        (b"bytes=7-100", b"789", b"bytes 7-9/10"),
        (b"bytes=-3", b"789", b"bytes 7-9/10"),
        (b"bytes=-100", b"0123456789", b"bytes 0-9/10"),
        (b"Bytes = 1-1 ", b"1", b"bytes 1-1/10"),
    ],
)
def test_a_range_of_what_is_stored(header: bytes, body: bytes, told: bytes) -> None:
    found = served(header)
    assert found is not None
    assert (found.status, found.body) == (206, body)
    assert found.fields == ((b"a", b"1"), (b"content-range", told), (b"content-length", b"%d" % len(body)))


@pytest.mark.parametrize("header", [b"bytes=10-", b"bytes=10-20", b"bytes=-0"])
def test_bytes_that_are_not_there(header: bytes) -> None:
    assert served(header) is None
    assert unsatisfiable(WHOLE).fields[0] == (b"content-range", b"bytes */10")


@pytest.mark.parametrize(
    "header",
    [
        b"bytes=5-2",
        b"bytes=",
        b"bytes=-",
        b"bytes=a-b",
        b"items=0-1",
        b"bytes=0-1,3-4",
        b"0-1",
        b"bytes=0-" + b"9" * 40,
    ],
)
def test_other_ranges_are_ignored(header: bytes) -> None:
    assert requested_range(((b"range", header),)) is None


def test_two_range_lines_are_ignored() -> None:
    assert requested_range(((b"range", b"bytes=0-1"), (b"range", b"bytes=0-1"))) is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"bytes 4-9/10", ContentRange(4, 9, 10)),
        (b"bytes 4-9/*", ContentRange(4, 9, None)),
        (b"bytes 9-4/10", None),
        (b"bytes 4-10/10", None),
        (b"bytes */10", None),
        (b"4-9/10", None),
    ],
)
def test_content_range(value: bytes, expected: ContentRange | None) -> None:
    assert content_range(Response(206, ((b"content-range", value),))) == expected


def test_a_stored_part_serves_what_lies_within_it() -> None:
    part = Response(206, ((b"content-range", b"bytes 4-8/10"),), b"45678")
    held = ContentRange(4, 8, 10)
    found = served(b"bytes=5-6", part, held)
    assert found is not None and found.body == b"56" and (b"content-range", b"bytes 5-6/10") in found.fields
    assert served(b"bytes=4-8", part, held) is not None
    assert served(b"bytes=3-5", part, held) is None
    assert served(b"bytes=5-9", part, held) is None
    assert served(b"bytes=5-6", part, ContentRange(4, 8, None)) is None


def test_a_part_with_fewer_bytes_than_its_bounds_say_is_told_as_what_is_there() -> None:
    part = Response(206, ((b"content-range", b"bytes 4-9/10"),), b"01234")
    found = served(b"bytes=6-", part, ContentRange(4, 9, 10))
    assert found is not None
    assert found.body == b"234"
    assert (b"content-range", b"bytes 6-8/10") in found.fields
    assert served(b"bytes=9-9", part, ContentRange(4, 9, 10)) is None
    last = served(b"bytes=-2", part, ContentRange(4, 9, 10))
    assert last is not None
    assert last.body == b"34"
    assert (b"content-range", b"bytes 8-9/10") in last.fields


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (b'"a"', True),
        (b'"b"', False),
        (b'W/"a"', False),
        (b"Wed, 01 Jan 2020 00:00:00 GMT", True),
        (b"Wed, 01 Jan 2020 00:00:01 GMT", False),
        (b"nonsense", False),
    ],
)
def test_if_range(condition: bytes, expected: bool) -> None:
    stored = ((b"etag", b'"a"'), (b"last-modified", b"Wed, 01 Jan 2020 00:00:00 GMT"))
    assert if_range_holds(((b"if-range", condition),), stored, now=0.0) is expected
    assert if_range_holds((), stored, now=0.0)


def test_a_last_modified_of_the_second_in_which_the_answer_was_made_holds_no_range() -> None:
    modified = b"Wed, 01 Jan 2020 00:00:00 GMT"
    asked = ((b"if-range", modified),)
    for date, holds in ((modified, False), (b"Wed, 01 Jan 2020 00:00:01 GMT", True)):
        stored = ((b"last-modified", modified), (b"date", date))
        assert if_range_holds(asked, stored, now=0.0) is holds
