"""Groups of responses in fields: RFC 9875, 2 and 3."""

from __future__ import annotations

import time

import pytest

from stampede_guard.http.spec.groups import LONGEST_GROUP, MOST_GROUPS, groups_of, invalidated_groups
from stampede_guard.http.spec.message import Fields, Response


def groups(value: str, name: bytes = b"cache-groups") -> tuple[str, ...] | None:
    return groups_of(((name, value.encode("latin-1")),))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ('"a"', ("a",)),
        ('"a", "b"', ("a", "b")),
        ('"b" ,\t"a","b"', ("b", "a")),
        ('"a";x=1;y="z, \\" \\\\";q, "b"', ("a", "b")),
        ('"a";at=@1659578233;why=%"z, b", "b"', ("a", "b")),
        (r'"say \"a\" \\ b"', ('say "a" \\ b',)),
        ('"scripts", "Scripts"', ("scripts", "Scripts")),
        ('""', ("",)),
        ("", ()),
    ],
)
def test_a_list_of_strings_is_read(value: str, expected: tuple[str, ...]) -> None:
    assert groups(value) == expected


@pytest.mark.parametrize(
    "value",
    ["a", '"a', '"a",', ',"a"', '"a" "b"', '("a" "b")', '"a", 1', '"é"', '"a\\x"', '"a";', '"a"; =1', "?1"],
)
def test_a_response_with_a_malformed_list_has_groups_that_nobody_knows(value: str) -> None:
    assert groups(value) is None


def test_lines_are_one_list_and_the_older_names_count_too() -> None:
    fields: Fields = (
        (b"cache-groups", b'"a"'),
        (b"surrogate-key", b"b  c a"),
        (b"cache-groups", b'"d"'),
        (b"cache-tag", b"e f, g,,"),
    )
    assert groups_of(fields) == ("a", "d", "b", "c", "e f", "g")
    assert groups_of(()) == ()


def test_32_groups_of_32_characters_are_supported_and_more_than_the_limits_are_not() -> None:
    assert len(groups(", ".join(f'"{number:032}"' for number in range(32))) or ()) == 32
    assert len(groups(" ".join(map(str, range(MOST_GROUPS))), b"surrogate-key") or ()) == MOST_GROUPS
    assert groups(" ".join(map(str, range(MOST_GROUPS + 1))), b"surrogate-key") is None
    assert groups("x" * LONGEST_GROUP, b"cache-tag") is not None
    assert groups("x" * (LONGEST_GROUP + 1), b"cache-tag") is None


def test_an_unsafe_request_invalidates_groups_and_a_safe_one_or_an_error_none() -> None:
    fields = ((b"cache-group-invalidation", b'"a", "b"'),)
    for method in ("POST", "PUT", "DELETE", "PATCH", "ANYTHING"):
        assert invalidated_groups(method, Response(200, fields)) == ("a", "b")
        assert invalidated_groups(method, Response(303, fields)) == ("a", "b")
        assert invalidated_groups(method, Response(404, fields)) == ()
        assert invalidated_groups(method, Response(500, fields)) == ()
    for method in ("GET", "HEAD", "OPTIONS", "QUERY"):
        assert invalidated_groups(method, Response(200, fields)) == ()
    assert invalidated_groups("POST", Response(200, ((b"cache-group-invalidation", b"a"),))) == ()


@pytest.mark.parametrize(
    "value",
    ['"' + '\\"' * 200_000, '"a"' + ";a" * 200_000 + "=", '"a",' * 200_000, '"a";a="' + "b" * 400_000],
)
def test_a_long_list_is_read_in_a_time_like_its_length(value: str) -> None:
    began = time.process_time()
    assert groups(value) is None
    assert time.process_time() - began < 5, "quadratic time would take minutes"
