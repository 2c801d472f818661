"""Vary: RFC 9111, 4.1."""

from __future__ import annotations

import pytest

from stampede_guard.http.spec.vary import names_in_vary, nominated, normal_value


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((), ()),
        ((b"",), ()),
        ((b"Foo, bar", b"FOO"), (b"bar", b"foo")),
        ((b"*",), None),
        ((b"foo, *",), None),
        ((b"", b"*"), None),
        ((b"foo bar",), None),
        ((b"f\xc3\xb6\xc3\xb6",), None),
    ],
)
def test_the_names_in_vary(lines: tuple[bytes, ...], expected: tuple[bytes, ...] | None) -> None:
    assert names_in_vary(tuple((b"vary", line) for line in lines)) == expected


def test_a_missing_field_is_not_an_empty_one() -> None:
    names = (b"a", b"b")
    assert nominated(((b"a", b"1"),), names) == ((b"a", b"1"),)
    assert nominated(((b"a", b"1"), (b"b", b"")), names) == ((b"a", b"1"), (b"b", b""))
    assert nominated((), names) == ()


def test_two_lines_are_not_the_one_line_that_they_would_be_together() -> None:
    twice, once = ((b"a", b"1"), (b"a", b"2")), ((b"a", b"1, 2"),)
    assert nominated(twice, (b"a",)) == nominated(((b"a", b" 1"), (b"a", b"2 ")), (b"a",))
    assert nominated(twice, (b"a",)) != nominated(once, (b"a",))


SPELLINGS = [
    ((b"x-a", b"1"),),
    ((b"x_a", b"1"),),
    ((b"x-a", b"1"), (b"x_a", b"2")),
    ((b"x_a", b"2"), (b"x-a", b"1")),
    ((b"x-a", b"2"), (b"x_a", b"1")),
    ((b"x-a", b"1"), (b"x-a", b"2")),
    ((b"x_a", b"1"), (b"x_a", b"2")),
    ((b"x-a", b"1, 2"),),
    ((b"x_a", b"1, 2"),),
    (),
]


@pytest.mark.parametrize("names", [(b"x-a",), (b"x_a",), (b"x-a", b"x_a")])
def test_a_name_with_underscores_is_one_more_spelling_of_a_name_with_dashes(names: tuple[bytes, ...]) -> None:
    found = [nominated(fields, names) for fields in SPELLINGS]
    assert len({repr(one) for one in found}) == len(SPELLINGS)


def test_underscores_in_other_fields_change_nothing() -> None:
    plain = ((b"x-a", b"1, 2"), (b"b", b"3"))
    assert nominated((*plain, (b"y_a", b"4")), (b"b", b"c-d", b"x-a")) == nominated(
        plain, (b"b", b"c-d", b"x-a")
    )
    many = tuple(b"n%d" % number for number in range(20))
    assert nominated((*plain, (b"y_a", b"4")), (*many, b"x-a")) == nominated(plain, (*many, b"x-a"))


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        (b"foo", b"1,2", b" 1, 2 "),
        (b"accept-language", b"en, de", b"eN,De"),
        (b"accept-encoding", b"gzip, br", b"br,gzip;q=1"),
        (b"accept-encoding", b"gzip;q=0.5, br", b"BR, gzip; q=0.500"),
        (b"accept-encoding", b"x-gzip, br", b"br, gzip, gzip"),
        (b"accept-language", b"en;q=0.5, de", b"de, EN; q=0.50"),
    ],
)
def test_differences_that_mean_nothing(name: bytes, one: bytes, other: bytes) -> None:
    assert normal_value(name, one) == normal_value(name, other)


@pytest.mark.parametrize(
    ("name", "one", "other"),
    [
        (b"foo", b"1,2", b"2,1"),
        (b"foo", b"a", b"A"),
        (b"foo", b'"1, 2"', b'"1,2"'),
        (b"accept-language", b"en, de", b"de, en"),
        (b"accept-encoding", b"gzip", b"gzip;q=0"),
        (b"accept-encoding", b"gzip;q=0.5, br", b"gzip, br;q=0.5"),
        (b"accept-encoding", b"gzip;q=x", b"gzip"),
        (b"accept-encoding", b"gzip;q=nan", b"gzip"),
        (b"accept-encoding", b"gzip;q=1_0", b"gzip;q=10"),
        (b"accept-language", b"en;q=0.5, de", b"en, de;q=0.5"),
        (b"accept-language", b"en;q=0.5, de;q=0.5", b"de;q=0.5, en;q=0.5"),
        (b"accept-language", b"de, en;q=0.5", b"de, en;q=0.5 00"),
        (b"accept-language", b"en;q=0.9", b"en;q=0.1;q=0.9"),
        (b"accept-language", b"fr", b"fr;q = 1"),
        (b"accept-language", b"fr", b"fr,,"),
        (b"accept-language", b"fr", b"f r"),
        (b"accept-language", b"en, de", b"en,\x0bde"),
        (b"accept-encoding", b"gzip", b"gzip;level=1"),
        (b"foo", b"a, b", b"a,\x0cb"),
        (b"cookie", b"name=a, b", b"name=a,b"),
        (b"authorization", b"Own a, b", b"Own a,b"),
        (b"user-agent", b"Old (KHTML, like Gecko)", b"Old (KHTML,like Gecko)"),
    ],
)
def test_differences_that_may_mean_something(name: bytes, one: bytes, other: bytes) -> None:
    assert normal_value(name, one) != normal_value(name, other)


def test_a_long_value_takes_no_more_room_than_its_digest_and_is_equal_only_to_itself() -> None:
    long, longer = b"x" * 60_000, b"x" * 60_001
    (kept,) = nominated(((b"foo", long),), (b"foo",))
    assert len(kept[1]) < 64
    assert nominated(((b"foo", long),), (b"foo",)) == (kept,)
    assert nominated(((b"foo", longer),), (b"foo",)) != (kept,)
    assert nominated((kept,), (b"foo",)) != (kept,)
