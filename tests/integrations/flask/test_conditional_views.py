"""A cached view that gives a validator answers a conditional request with 304 (RFC 9110, 13.1.2 and 13.1.3)."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from flask import Flask, Response, make_response, request

from stampede_guard.integrations.flask import Stampede

CHANGED = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def calls(stampede: Stampede, app: Flask) -> list[str]:
    """The views that have computed."""
    calls: list[str] = []

    @app.get("/tagged")
    @stampede.cached_view(ttl=60)
    def tagged() -> Response:
        calls.append("tagged")
        response = make_response("page", {"Cache-Control": "max-age=5"})
        response.set_etag("seven")
        return response

    @app.get("/dated")
    @stampede.cached_view(ttl=60)
    def dated() -> Response:
        calls.append("dated")
        response = make_response("page")
        response.last_modified = CHANGED
        return response

    @app.get("/conditional")
    @stampede.cached_view(ttl=60)
    def conditional() -> Response:
        calls.append("conditional")
        response = make_response("page")
        response.add_etag()
        return response.make_conditional(request)

    @app.get("/plain")
    @stampede.cached_view(ttl=60)
    def plain() -> str:
        calls.append("plain")
        return "page"

    @app.get("/missing")
    @stampede.cached_view(ttl=60)
    def missing() -> tuple[str, int, dict[str, str]]:
        calls.append("missing")
        return "none", 404, {"ETag": '"seven"'}

    return calls


@pytest.mark.parametrize("method", ["GET", "HEAD"])
@pytest.mark.parametrize("field", ['"seven"', 'W/"seven"', '"six", W/"seven"', "*"])
def test_a_copy_that_the_client_has_is_not_sent_again(
    method: str, field: str, app: Flask, calls: list[str]
) -> None:
    client = app.test_client()
    for _ in range(2):  # computed, then stored
        answer = client.open("/tagged", method=method, headers={"If-None-Match": field})
        assert (answer.status_code, answer.data) == (304, b"")
        assert answer.headers["ETag"] == '"seven"'
        assert answer.headers["Cache-Control"] == "max-age=5"
        assert "Content-Type" not in answer.headers
        assert "Content-Length" not in answer.headers
    assert calls == ["tagged"]


@pytest.mark.parametrize("field", ['"six"', 'W/"eight", "nine"', "seven", ""])
def test_another_copy_is_replaced(field: str, app: Flask, calls: list[str]) -> None:
    client = app.test_client()
    for _ in range(2):
        answer = client.get("/tagged", headers={"If-None-Match": field})
        assert (answer.status_code, answer.data) == (200, b"page")


@pytest.mark.parametrize(
    ("since", "status"),
    [
        ("Sun, 01 Mar 2026 00:00:00 GMT", 304),
        ("Mon, 02 Mar 2026 00:00:00 GMT", 304),
        ("Sat, 28 Feb 2026 23:59:59 GMT", 200),
        ("yesterday", 200),
    ],
)
def test_a_date_of_the_client_is_compared(since: str, status: int, app: Flask, calls: list[str]) -> None:
    client = app.test_client()
    for _ in range(2):
        assert client.get("/dated", headers={"If-Modified-Since": since}).status_code == status


def test_an_entity_tag_comes_before_a_date(app: Flask, calls: list[str]) -> None:
    both = {"If-None-Match": '"six"', "If-Modified-Since": "Mon, 02 Mar 2026 00:00:00 GMT"}
    assert app.test_client().get("/dated", headers=both).status_code == 200


def test_a_view_that_compares_itself_keeps_its_304_when_it_is_cached(app: Flask, calls: list[str]) -> None:
    client = app.test_client()
    first = client.get("/conditional")
    again = client.get("/conditional", headers={"If-None-Match": first.headers["ETag"]})
    assert (first.status_code, again.status_code) == (200, 304)
    assert calls == ["conditional"]


def test_the_condition_of_one_caller_does_not_decide_for_the_next(app: Flask, calls: list[str]) -> None:
    client = app.test_client()
    assert client.get("/tagged", headers={"If-None-Match": '"seven"'}).status_code == 304
    assert client.get("/tagged").data == b"page"
    assert calls == ["tagged"]


def test_without_a_validator_of_the_view_the_whole_response_is_sent(app: Flask, calls: list[str]) -> None:
    client = app.test_client()
    answer = client.get("/plain", headers={"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"})
    assert (answer.status_code, answer.data) == (200, b"page")
    assert "ETag" not in answer.headers


def test_another_status_is_never_answered_with_304(app: Flask, calls: list[str]) -> None:
    answer = app.test_client().get("/missing", headers={"If-None-Match": '"seven"'})
    assert (answer.status_code, answer.data) == (404, b"none")
