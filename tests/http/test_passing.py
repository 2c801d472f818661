"""Requests that go past the route that is written for their path: what they are told, and what goes wrong meanwhile."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from stampede_guard import CacheRoute
from tests.http.asgi import request
from tests.http.fleet import App, Fleet, cached, status_of

ROUTES = [CacheRoute("/*", ttl=60)]


# ------------------------------------------------------------------------------------------- what they are told


@pytest.mark.parametrize("field", ["cookie", "authorization", "x_api_key"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_one_who_is_known_is_told_that_his_credentials_led_him_past_the_route(
    field: str, method: str
) -> None:
    """RFC 9211, 2.2: it is no uri-miss, since there is an answer for that URI."""
    app = App({})
    async with Fleet(app, routes=ROUTES) as fleet:
        assert "stored" in status_of(await fleet.get())
        for _ in range(4):
            said = status_of(await fleet.get(method=method, **{field: "me"}))
            assert said.startswith("stampede_guard; fwd=bypass") and said.endswith("; detail=credentials")
            assert "stored" not in said
        assert "hit" in status_of(await fleet.get())


@pytest.mark.parametrize("field", ["cookie", "x_api_key"])
@pytest.mark.parametrize("said", [{"cache-control": "private"}, {"cache-control": "no-store"}, cached()])
async def test_the_answers_own_word_is_told_where_it_says_one(field: str, said: dict[str, str]) -> None:
    app = App(said)
    async with Fleet(app, routes=ROUTES) as fleet:
        status = status_of(await fleet.get(**{field: "me"}))
        word = said["cache-control"]
        assert status == "stampede_guard; " + (
            "fwd=bypass; fwd-status=200; detail=credentials"
            if word == "max-age=60"
            else f"fwd=uri-miss; fwd-status=200; detail={word}"
        )


async def test_without_a_route_there_is_none_to_go_past() -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/other", ttl=60)]) as fleet:
        assert 'fwd=uri-miss; fwd-status=200; detail="nothing to go by"' in status_of(
            await fleet.get(cookie="a")
        )


async def test_a_post_that_credentials_lead_past_its_route_says_so() -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60, methods=("POST",))]) as fleet:
        answer = await fleet.get(method="POST", cookie="a")
        assert status_of(answer) == "stampede_guard; fwd=method; detail=credentials"


async def test_a_key_function_that_wants_no_caching_is_told_as_the_reason() -> None:
    app = App({})
    for methods in (("GET",), ("POST",)):
        route = CacheRoute("/*", ttl=60, methods=methods, key=lambda scope: None)
        async with Fleet(app, routes=[route]) as fleet:
            said = status_of(await fleet.get(method=methods[0]))
            assert "detail=key" in said
            assert ("fwd=bypass" if methods == ("GET",) else "fwd=method") in said


# ------------------------------------------------------------------------------- a key function that goes wrong


def by_user(scope: Any) -> str:
    """Fails where nobody says who he is."""
    return dict(scope["headers"])[b"x-user"].decode()


def errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_on_a_safe_request_the_application_answers_and_the_log_says_it_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60, key=by_user)]) as fleet:
        for number in range(1, 4):
            answer = await fleet.get(f"/{number}")
            assert answer.body == b"answer %d" % number
            assert "fwd=bypass" in status_of(answer) and 'detail="key failed"' in status_of(answer)
        (record,) = errors(caplog)
        assert "CacheRoute('/*'" in record.getMessage() and record.exc_info is not None
        assert isinstance(record.exc_info[1], KeyError)


async def test_who_has_a_key_is_served_as_ever_and_shares_nothing_with_who_has_none() -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60, key=by_user)]) as fleet:
        assert [(await fleet.get(x_user=user)).body for user in "abab"] == [b"answer 1", b"answer 2"] * 2
        assert [(await fleet.get()).body for _ in range(2)] == [b"answer 3", b"answer 4"]
        assert (await fleet.get(x_user="a")).body == b"answer 1"


async def test_an_unsafe_request_is_carried_out_and_answered_whatever_the_key_function_does(
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = App({})
    routes = [CacheRoute("/*", ttl=60, key=by_user), CacheRoute("/a*", ttl=60)]
    async with Fleet(app, routes=routes) as fleet:
        for method in ("POST", "PUT", "DELETE"):
            answer = await fleet.get("/a", method=method)
            assert (answer.status, status_of(answer)) == (200, "stampede_guard; fwd=method")
        assert app.calls == 3
        assert len(errors(caplog)) == 1


async def test_what_else_it_changes_is_invalidated_though_a_key_function_fails() -> None:
    app = App(cached())
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60, key=by_user)]) as fleet:
        assert "stored" in status_of(await fleet.get())
        await fleet.get(method="PUT")
        assert (await fleet.get()).body == b"answer 3"


async def test_a_post_whose_key_function_fails_is_an_unsafe_request_with_its_body() -> None:
    app = App({})

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    app.handler = handler
    route = CacheRoute("/*", ttl=60, methods=("POST",), key=by_user)
    async with Fleet(app, routes=[route]) as fleet:
        for _ in range(2):
            answer = await request(fleet.middlewares[0], "POST", "/q", body=b"question")
            assert answer.body == b"question"
            assert status_of(answer) == 'stampede_guard; fwd=method; detail="key failed"'
        assert app.calls == 2


async def test_two_keys_of_one_question_are_two_answers() -> None:
    app = App({})
    route = CacheRoute("/*", ttl=60, methods=("POST",), key=by_user)
    async with Fleet(app, routes=[route]) as fleet:
        bodies = [(await fleet.get(method="POST", x_user=user)).body for user in "abab"]
        assert bodies == [b"answer 1", b"answer 2"] * 2


class User:
    """Its text has its address, which the next user's object may have, too."""


@pytest.mark.parametrize("wrong", [User(), b"tenant", ("a", "b")])
async def test_what_is_no_text_is_no_key(wrong: Any, caplog: pytest.LogCaptureFixture) -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60, key=lambda scope: wrong)]) as fleet:
        for _ in range(2):
            assert 'detail="key failed"' in status_of(await fleet.get())
        assert app.calls == 2
        (record,) = errors(caplog)
        assert type(wrong).__name__ in record.getMessage()


async def test_a_key_that_would_have_to_be_awaited_is_no_key(caplog: pytest.LogCaptureFixture) -> None:
    async def key() -> str:
        return "a"

    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60, key=lambda scope: key())]) as fleet:  # type: ignore[arg-type,return-value]
        assert 'detail="key failed"' in status_of(await fleet.get())
        assert "coroutine" in errors(caplog)[0].getMessage()


async def test_a_key_function_is_asked_once_for_a_request() -> None:
    asked = []

    def key(scope: Any) -> str:
        asked.append(scope["path"])
        return "a"

    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60, key=key)]) as fleet:
        for path in ("/1", "/1", "/2"):
            await fleet.get(path)
        assert asked == ["/1", "/1", "/2"]
