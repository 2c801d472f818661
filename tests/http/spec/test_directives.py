"""Cache-Control and targeted fields."""

from __future__ import annotations

import pytest

from stampede_guard.http.spec.directives import MOST_SECONDS, cache_control, effective, seconds, targeted


def control(*lines: bytes) -> dict[bytes, bytes | None]:
    return dict(cache_control(tuple((b"cache-control", line) for line in lines)).values)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"3600", 3600),
        (b"003600", 3600),
        (b"0", 0),
        (b"2147483649", MOST_SECONDS),
        (b"9" * 100_000, MOST_SECONDS),
        (b"", None),
        (b"-1", None),
        (b"3600.0", None),
        (b"3600a", None),
        (b" 3600", None),
        (b"'3600'", None),
        ("٣".encode(), None),
        (None, None),
    ],
)
def test_delta_seconds_are_digits_and_nothing_else(text: bytes | None, expected: int | None) -> None:
    assert seconds(text) == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((b"max-age=1, no-store",), {b"max-age": b"1", b"no-store": None}),
        ((b"MaX-aGe=1", b"Public"), {b"max-age": b"1", b"public": None}),
        ((b'max-age="60"',), {b"max-age": b"60"}),
        ((b'x="max-age=3600", max-age=1',), {b"max-age": b"1"}),
        ((b'no-cache="a, B"',), {b"no-cache": b"a, B"}),
        ((b"max-age =60",), {b"max-age": None}),
        ((b"=, ;, max-age=5",), {b"max-age": b"5"}),
        ((b"no-store; max-age=5",), {b"no-store": None, b"max-age": None}),
        ((b"public; max-age=5",), {b"max-age": None}),
        ((b"max-age=60; private",), {b"max-age": None, b"private": None}),
        ((b"foo=bar;private",), {b"private": None}),
        ((b"must-revalidate no-store",), {b"must-revalidate": None, b"no-store": None}),
        ((b'private="a"; x, private="b"',), {b"private": None}),
        ((b'private="a',), {b"private": None}),
        ((b'foo="a; private"',), {}),
        ((b'foo="a; private"; b',), {}),
        ((b"not-private; private-x; x=private",), {}),
        ((b"max-age=5, private ;",), {b"max-age": b"5", b"private": None}),
        ((b"x=1, y, x=2",), {}),
        ((b'"private", max-age=60',), {b"max-age": b"60", b"private": None}),
        ((b'"no-store, private"',), {b"no-store": None, b"private": None}),
        ((b'max-age=60, "x, no-cache="',), {b"max-age": b"60", b"no-cache": None}),
        ((b"max-age=60,\xa0private",), {b"max-age": b"60", b"private": None}),
        ((b"max-age=60,private\xa0",), {b"max-age": b"60", b"private": None}),
        ((b"max-age=60, \xc2\xa0no-store\xe2\x80\x8b, x",), {b"max-age": b"60", b"no-store": None}),
        ((b"\xef\xbb\xbfprivate, max-age=60",), {b"max-age": b"60", b"private": None}),
        ((b'x = "a, private", max-age=60',), {b"max-age": b"60"}),
    ],
)
def test_directives_are_read_whatever_stands_beside_them(
    lines: tuple[bytes, ...], expected: dict[bytes, bytes | None]
) -> None:
    assert control(*lines) == expected


def test_of_two_numbers_the_smaller_counts_and_a_malformed_one_counts_least() -> None:
    assert cache_control(((b"cache-control", b"max-age=60, max-age=5"),)).seconds(b"max-age") == 5
    assert (
        cache_control(((b"cache-control", b"max-age=5"), (b"cache-control", b"max-age=60"))).seconds(
            b"max-age"
        )
        == 5
    )
    assert cache_control(((b"cache-control", b"max-age=60, max-age=x"),)).seconds(b"max-age") == 0
    assert cache_control(((b"cache-control", b"max-age"),)).seconds(b"max-age") == 0
    assert cache_control(()).seconds(b"max-age") is None


def test_a_list_of_fields_loses_to_the_directive_without_one() -> None:
    assert cache_control(((b"cache-control", b'no-cache="a", no-cache'),)).names(b"no-cache") == frozenset()
    assert cache_control(((b"cache-control", b'private="a, B", private="c"'),)).names(b"private") == {
        b"a",
        b"b",
        b"c",
    }


NO_LISTS = [
    b"=1",
    b"=true",
    b"=True",
    b'="true"',
    b'="1"',
    b'="*"',
    b"=*",
    b"=",
    b'=""',
    b'=" , "',
    b"=set-cookie",
]
NO_LISTS += [b"=yes", b'="on"', b'="a b"', b'="a, *"', b"=False", b'="none"']


@pytest.mark.parametrize("name", [b"private", b"no-cache"])
@pytest.mark.parametrize("argument", NO_LISTS)
def test_what_lists_no_fields_is_the_directive_itself(name: bytes, argument: bytes) -> None:
    assert control(b"max-age=60, " + name + argument)[name] is None
    assert control(name + b'="a", ' + name + argument, name + b'="b"')[name] is None
    assert control(name + b'="a , B"')[name] == b"a , B"


@pytest.mark.parametrize("argument", [b"", b"=?1", b'="true"', b'="*"', b'=""'])
def test_so_it_is_in_a_targeted_field(argument: bytes) -> None:
    for name in (b"private", b"no-cache"):
        found = targeted(((b"cdn-cache-control", b"max-age=60, " + name + argument),), b"cdn-cache-control")
        assert found is not None and found.values[name] is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"max-age=3600", {b"max-age": b"3600"}),
        (b"foobar, max-age=3600", {b"max-age": b"3600"}),
        (b"MaX-aGe=3600", {b"max-age": b"3600"}),
        (b"max-age=99999999999", {b"max-age": b"99999999999"}),
        (b"no-store", {b"no-store": None}),
        (b"no-store=?1", {b"no-store": None}),
        (b"no-store=?0, max-age=1", {b"max-age": b"1"}),
        (b"max-age=60;a=1;b, must-revalidate", {b"max-age": b"60", b"must-revalidate": None}),
        (b'max-age=60, foo=(a "b" 1;c=2 ?1);d', {b"max-age": b"60"}),
        (b"foo=(), max-age=60", {b"max-age": b"60"}),
        (b"foo=@1659578233, max-age=60;at=@0", {b"max-age": b"60"}),
        (b'foo=%"f%c3%bc", max-age=60;why=%"a, b"', {b"max-age": b"60"}),
        (b"max-age=60 , \tno-store", {b"max-age": b"60", b"no-store": None}),
    ],
)
def test_a_targeted_field_is_a_dictionary(value: bytes, expected: dict[bytes, bytes | None]) -> None:
    found = targeted(((b"cdn-cache-control", value),), b"cdn-cache-control")
    assert found is not None and found.targeted
    assert dict(found.values) == expected


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"max-age=10000, &&&&&",
        b'max-age="10000"',
        b"max-age=1.5",
        b"max-age=-1",
        b"max-age",
        b"max-age=60,",
        b"max-age = 60",
        b"no-store=1",
        b"max-age=(60)",
        b"no-store=(a)",
        b"foo=(a, max-age=60",
        b"foo=(a,b), max-age=60",
        b"max-age=60 no-store",
    ],
)
def test_a_malformed_targeted_field_is_as_if_it_were_not_there(value: bytes) -> None:
    assert targeted(((b"cdn-cache-control", value),), b"cdn-cache-control") is None


def test_the_first_valid_target_is_obeyed_and_else_cache_control() -> None:
    fields = (
        (b"cache-control", b"max-age=1"),
        (b"cdn-cache-control", b"max-age=2"),
        (b"mine-cache-control", b"max-age=3"),
    )
    targets = (b"mine-cache-control", b"cdn-cache-control")
    assert effective(fields, targets).seconds(b"max-age") == 3
    assert effective(fields[:2], targets).seconds(b"max-age") == 2
    assert effective(fields[:1], targets).seconds(b"max-age") == 1
    assert not effective(fields[:1], targets).targeted
