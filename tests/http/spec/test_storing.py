"""What may be stored: RFC 9111, 3."""

from __future__ import annotations

import pytest

from stampede_guard.http.spec.directives import effective
from stampede_guard.http.spec.freshness import lifetime
from stampede_guard.http.spec.message import Fields, Request, Response
from stampede_guard.http.spec.storing import Refusal, may_store, stored_fields

NOW = 1_750_000_000.0
CC = b"cache-control"
MODIFIED = (b"last-modified", b"Wed, 01 Jan 2020 00:00:00 GMT")


def refusal(
    *fields: tuple[bytes, bytes], method: str = "GET", status: int = 200, request: Fields = ()
) -> Refusal | None:
    response = Response(status, fields)
    directives = effective(fields, (b"cdn-cache-control",))
    life = lifetime(response, directives, received_at=NOW)
    return may_store(Request(method, "http://a/", request), response, directives, life)


@pytest.mark.parametrize(
    "fields",
    [
        ((CC, b"max-age=60"),),
        ((CC, b"s-maxage=60"),),
        ((CC, b"max-age=0"),),
        ((b"expires", b"Thu, 18 Aug 2050 02:01:18 GMT"),),
        ((CC, b"no-cache"), (b"etag", b'"a"')),
        ((CC, b"public"), MODIFIED),
        (MODIFIED,),
        ((b"etag", b'"a"'),),
        ((CC, b'private="set-cookie", max-age=60'),),
        ((CC, b"max-age=60"), (b"set-cookie", b"a=1")),
        ((CC, b"no-store"), (b"cdn-cache-control", b"max-age=60")),
        ((CC, b"no-store, must-understand, max-age=60"),),
        ((CC, b"max-age=60"), (b"vary", b"accept")),
    ],
)
def test_these_are_stored(fields: Fields) -> None:
    assert refusal(*fields) is None


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        (((CC, b"no-store, max-age=60"),), "no-store"),
        (((CC, b"private, max-age=60"),), "private"),
        (((CC, b'private="a", private, max-age=60'),), "private"),
        (((CC, b"max-age=60"), (b"cdn-cache-control", b"no-store")), "no-store"),
        (((CC, b"max-age=60"), (b"vary", b"*")), "vary"),
        (((CC, b"max-age=60"), (b"vary", b"accept"), (b"vary", b", *")), "vary"),
        ((), "nothing to go by"),
        (((CC, b"public"),), "nothing to go by"),
        ((MODIFIED, (b"set-cookie", b"a=1")), "set-cookie"),
    ],
)
def test_these_are_not_stored(fields: Fields, why: str) -> None:
    assert refusal(*fields) == why


@pytest.mark.parametrize("status", [200, 204, 302, 303, 400, 404, 499, 500, 503, 599])
def test_any_final_status_is_stored_with_explicit_freshness(status: int) -> None:
    assert refusal((CC, b"max-age=60"), status=status) is None


@pytest.mark.parametrize("status", [100, 103, 304])
def test_a_status_that_is_no_answer_is_not(status: int) -> None:
    assert refusal((CC, b"max-age=60"), status=status) == "status"


@pytest.mark.parametrize("status", [201, 302, 403, 502, 504])
def test_a_status_that_is_not_cacheable_by_default_needs_to_be_told(status: int) -> None:
    assert refusal(MODIFIED, status=status) == "nothing to go by"
    assert refusal(MODIFIED, (CC, b"public"), status=status) is None


@pytest.mark.parametrize("status", [412, 416, 417])
def test_an_answer_to_ones_own_conditions_is_nobody_elses(status: int) -> None:
    assert refusal((CC, b"public, max-age=60"), status=status) == "status"


def test_must_understand_refuses_a_status_that_is_not_understood() -> None:
    assert refusal((CC, b"max-age=60, must-understand"), status=599) == "status"
    assert refusal((CC, b"max-age=60, must-understand"), status=451) is None


@pytest.mark.parametrize(
    ("control", "why"),
    [
        (b"max-age=60", "authorization"),
        (b"max-age=60, public", None),
        (b"s-maxage=60", None),
        (b"max-age=60, must-revalidate", None),
        (b"max-age=60, proxy-revalidate", "authorization"),
    ],
)
def test_an_answer_to_a_request_with_authorization_is_shared_only_if_it_says_so(
    control: bytes, why: str | None
) -> None:
    assert refusal((CC, control), request=((b"authorization", b"Basic x"),)) == why


def test_a_client_may_ask_for_nothing_to_be_stored() -> None:
    assert refusal((CC, b"max-age=60"), request=((CC, b"no-store"),)) == "no-store"


@pytest.mark.parametrize(
    ("method", "fields", "why"),
    [
        ("PUT", ((CC, b"max-age=60"),), "method"),
        ("OPTIONS", ((CC, b"max-age=60"),), "method"),
        ("POST", (MODIFIED,), "method"),
        ("POST", ((CC, b"max-age=60"),), None),
        ("HEAD", ((CC, b"max-age=60"),), None),
    ],
)
def test_methods(method: str, fields: Fields, why: str | None) -> None:
    assert refusal(*fields, method=method) == why


def test_listed_fields_are_not_stored() -> None:
    fields = ((CC, b'max-age=60, no-cache="A", private="b"'), (b"a", b"1"), (b"b", b"2"), (b"c", b"3"))
    response = Response(200, (*fields, (b"connection", b"d"), (b"d", b"4")))
    assert stored_fields(response, effective(fields, ())) == (fields[0], (b"c", b"3"))
