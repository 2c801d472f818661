"""Lines, lists and quoted strings."""

from __future__ import annotations

import pytest

from stampede_guard.http.spec.fields import combined, first, lines, members, unquoted, without_hops


def test_lines_keep_their_order_and_lose_the_space_around_them() -> None:
    fields = ((b"a", b" 1 "), (b"b", b"2"), (b"a", b"\t3"))
    assert lines(fields, b"a") == [b"1", b"3"]
    assert first(fields, b"a") == b"1"
    assert combined(fields, b"a") == b"1, 3"
    assert first(fields, b"c") is combined(fields, b"c") is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b"a, b", [b"a", b"b"]),
        (b"a,,b,", [b"a", b"b"]),
        (b'a="x, y", b', [b'a="x, y"', b"b"]),
        (rb'a="\", b", c', [rb'a="\", b"', b"c"]),
        (b'a="never closed, b', [b'a="never closed, b']),
        (b"", []),
        (b" , ,", []),
    ],
)
def test_members_are_split_at_commas_outside_of_quotes(line: bytes, expected: list[bytes]) -> None:
    assert members(((b"f", line),), b"f") == expected


def test_members_of_all_lines_count() -> None:
    assert members(((b"f", b"a, b"), (b"g", b"x"), (b"f", b"c")), b"f") == [b"a", b"b", b"c"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [(b'"a b"', b"a b"), (rb'"a\"b\\"', rb'a"b' + b"\\"), (b"a", b"a"), (b'"', b'"'), (b'""', b"")],
)
def test_quoted_strings_are_read(text: bytes, expected: bytes) -> None:
    assert unquoted(text) == expected


def test_what_belongs_to_a_connection_is_taken_out_also_what_connection_lists() -> None:
    fields = (
        (b"connection", b"close, X-Mine"),
        (b"keep-alive", b"5"),
        (b"x-mine", b"1"),
        (b"transfer-encoding", b"chunked"),
        (b"x-other", b"2"),
    )
    assert without_hops(fields) == ((b"x-other", b"2"),)
