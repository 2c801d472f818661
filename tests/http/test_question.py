"""The content of a request in its key: RFC 10008, 2.7, and RFC 8259."""

from __future__ import annotations

import time

import pytest

from stampede_guard.http.requests.question import normal_json, question
from stampede_guard.http.spec.message import Fields

JSON: Fields = ((b"content-type", b"application/json"),)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b'{"a": 1, "b": [true, null]}', b'{"b":[true,null],"a":1}'),
        (b'{"a":{"d":1,"c":2}}', b' { "a" : { "c":2,"d":1 } } '),
        (rb'"\u0041\/"', b'"A/"'),
    ],
)
def test_spellings_of_one_value_are_one_question(one: bytes, other: bytes) -> None:
    assert normal_json(one) == normal_json(other) is not None
    assert question("QUERY", JSON, one, json_bodies=True) == question("QUERY", JSON, other, json_bodies=True)
    assert question("QUERY", JSON, one) != question("QUERY", JSON, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (b"1", b"1.0"),
        (b"1", b'"1"'),
        (b"1e1", b"10"),
        (b"0", b"-0"),
        (b"1", b"true"),
        (b"[1,2]", b"[2,1]"),
        (b'{"a":1}', b'{"A":1}'),
        (b"null", b'"null"'),
        (b'["n","1"]', b"1"),
        (b'["o",[]]', b"{}"),
        (b"1" * 5000, b"1" * 5001),
    ],
)
def test_two_values_are_two_questions(one: bytes, other: bytes) -> None:
    assert question("QUERY", JSON, one, json_bodies=True) != question("QUERY", JSON, other, json_bodies=True)


@pytest.mark.parametrize(
    "body",
    [
        b'{"a":1,"a":2}',
        b"\xef\xbb\xbf1",
        '"ä"'.encode("utf-16"),
        b"NaN",
        b"",
        b"[",
        b"[" * 60_000 + b"]" * 60_000,
        b"\xff",
    ],
)
def test_what_two_parsers_may_read_in_two_ways_counts_byte_by_byte(body: bytes) -> None:
    assert normal_json(body) is None


def test_the_method_and_what_says_how_the_content_is_read_count() -> None:
    asked = [
        question("QUERY", JSON, b"{}"),
        question("POST", JSON, b"{}"),
        question("QUERY", ((b"content-type", b"text/plain"),), b"{}"),
        question("QUERY", (*JSON, (b"content-encoding", b"gzip")), b"{}"),
        question("QUERY", (*JSON, (b"content-language", b"de")), b"{}"),
        question("QUERY", (), b"{}"),
        question("QUERY", JSON, b"{} "),
    ]
    assert len(set(asked)) == len(asked)
    assert question("QUERY", ((b"content-type", b"text/plain"),), b"{} ", json_bodies=True) != question(
        "QUERY", ((b"content-type", b"text/plain"),), b"{}", json_bodies=True
    )


def test_a_long_body_is_read_in_a_time_like_its_length() -> None:
    began = time.process_time()
    normal_json(b"[" + b"1," * 200_000 + b"1]")
    normal_json(b"1" * 1_000_000)
    assert time.process_time() - began < 5, "quadratic time would take minutes"


@pytest.mark.parametrize(("charset", "same"), [(b"utf-8", True), (b'"UTF-8"', True), (b"iso-8859-1", False)])
def test_json_in_another_encoding_counts_by_its_bytes(charset: bytes, same: bool) -> None:
    """An application that obeys the parameter reads two texts."""
    fields: Fields = ((b"content-type", b"application/json; charset=" + charset),)
    one, other = (
        question("QUERY", fields, body, json_bodies=True) for body in ('"é"'.encode(), rb'"\u00e9"')
    )
    assert (one == other) is same
