"""What an unsafe request outdates: RFC 9111, 4.4."""

from __future__ import annotations

import pytest

from stampede_guard.http.spec.invalidation import invalidated_targets
from stampede_guard.http.spec.message import Fields, Response

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
