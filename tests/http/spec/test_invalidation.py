"""What an unsafe request outdates: RFC 9111, 4.4."""

from __future__ import annotations

import pytest

from stampede_guard.http.spec.invalidation import invalidated_targets
from stampede_guard.http.spec.message import Fields, Response
from stampede_guard.http.spec.status import CacheStatus

URL = "https://example.org/a/b?c"


def targets(method: str, status: int = 200, fields: Fields = ()) -> tuple[str, ...]:
    return invalidated_targets(method, URL, Response(status, fields))


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "ANYTHING"])
def test_a_request_that_may_have_changed_something_outdates_its_own_url(method: str) -> None:
    assert targets(method) == targets(method, 303) == (URL,)
    assert targets(method, 404) == targets(method, 500) == ()


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "TRACE"])
def test_a_safe_one_outdates_nothing(method: str) -> None:
    assert targets(method) == ()


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"c", "https://example.org/a/c"),
        (b"/c#part", "https://example.org/c"),
        (b"https://EXAMPLE.org:443/c", "https://EXAMPLE.org:443/c"),
        (b"//example.org/c", "https://example.org/c"),
    ],
)
def test_also_what_location_names_on_the_same_origin(value: bytes, expected: str) -> None:
    assert targets("POST", 201, ((b"location", value),)) == (URL, expected)
    assert targets("POST", 200, ((b"content-location", value),)) == (URL, expected)


@pytest.mark.parametrize(
    "value",
    [
        b"https://other.org/c",
        b"http://example.org/c",
        b"https://example.org:444/c",
        b"//[",
        b"\xff",
        b"https://example.org:x/",
    ],
)
def test_but_nothing_of_another_origin(value: bytes) -> None:
    assert targets("POST", 201, ((b"location", value),)) == (URL,)


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (CacheStatus(hit=True, ttl=30), b"mine; hit; ttl=30"),
        (CacheStatus(hit=True, ttl=-5), b"mine; hit; ttl=-5"),
        (
            CacheStatus(forwarded="uri-miss", forwarded_status=200, stored=True, ttl=60),
            b"mine; fwd=uri-miss; fwd-status=200; ttl=60; stored",
        ),
        (CacheStatus(forwarded="stale", collapsed=True), b"mine; fwd=stale; collapsed"),
        (CacheStatus(forwarded="bypass", detail="credentials"), b"mine; fwd=bypass; detail=credentials"),
        (CacheStatus(hit=True, key='a "b" \\ \xe4'), b'mine; hit; key="a \\"b\\" \\\\ ?"'),
        (CacheStatus(forwarded="miss", detail="two words"), b'mine; fwd=miss; detail="two words"'),
    ],
)  # fmt: skip
def test_cache_status_is_written_as_structured_fields(status: CacheStatus, expected: bytes) -> None:
    assert status.serialise("mine") == expected
