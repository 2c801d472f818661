"""HEAD, OPTIONS, TRACE and whatever else there is: only as the RFC or a route says."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from stampede_guard import CacheRoute
from stampede_guard.errors import StoreUnavailable
from tests.http.asgi import request
from tests.http.fleet import App, Fleet, cached, start, status_of

PREFLIGHT = {
    "origin": "https://shop.test",
    "access_control_request_method": "GET",
    "access_control_request_headers": "x-a",
}


async def test_a_preflight_is_the_applications_each_time_and_leaves_what_is_stored_alone() -> None:
    app = App(cached(access_control_allow_origin="*", access_control_max_age="600"))
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60)]) as fleet:
        await fleet.get()
        for number in (2, 3):
            answer = await fleet.get(method="OPTIONS", **PREFLIGHT)
            assert answer.body == b"answer %d" % number
            assert answer.get("access-control-allow-origin") == "*"
        assert (await fleet.get()).body == b"answer 1"


async def test_a_cors_answer_for_one_origin_is_not_that_for_another() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        origin = dict(scope["headers"]).get(b"origin", b"").decode()
        await start(send, cached(vary="Origin", access_control_allow_origin=origin))
        await send({"type": "http.response.body", "body": b""})

    app.handler = handler
    async with Fleet(app) as fleet:
        for _ in range(2):
            for origin in ("https://a.test", "https://b.test"):
                answer = await fleet.get(origin=origin)
                assert answer.get("access-control-allow-origin") == origin
        assert app.calls == 2


async def test_a_head_has_the_fields_of_the_get_and_its_length_and_no_body() -> None:
    app = App(cached(content_length="8", etag='"a"'))
    async with Fleet(app) as fleet:
        get = await fleet.get()
        head = await fleet.get(method="HEAD")
        assert head.body == b""
        ours = {"age", "cache-status"}
        assert [pair for pair in head.fields if pair[0] not in ours] == [
            pair for pair in get.fields if pair[0] not in ours
        ]
        assert (await fleet.get(method="HEAD", if_none_match='"a"')).status == 304


async def test_a_head_before_any_get_stores_no_empty_answer() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, cached(content_length="8"))
        body = b"" if scope["method"] == "HEAD" else b"answer %d" % number
        await send({"type": "http.response.body", "body": body})

    app.handler = handler
    async with Fleet(app) as fleet:
        assert (await fleet.get(method="HEAD")).body == b""
        assert (await fleet.get()).body == b"answer 2"
        assert (await fleet.get()).body == b"answer 2"


async def test_what_the_cache_itself_answers_to_a_head_has_no_body() -> None:
    async with Fleet(App()) as fleet:
        answer = await fleet.get(method="HEAD", cache_control="only-if-cached")
        assert (answer.status, answer.body) == (504, b"")


@pytest.mark.parametrize(
    "method", ["POST", "PUT", "PATCH", "DELETE", "MKCOL", "M-SEARCH", "get", "query", "FOO"]
)
async def test_any_method_that_is_not_known_to_be_safe_is_forwarded_and_invalidates(method: str) -> None:
    app = App()
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60)]) as fleet:
        await fleet.get()
        assert (await fleet.get(method=method)).body == b"answer 2"
        assert (await fleet.get()).body == b"answer 3"


@pytest.mark.parametrize("method", ["POST", "DELETE", "FOO"])
@pytest.mark.parametrize("status", [400, 404, 500, 503])
async def test_what_failed_has_changed_nothing(method: str, status: int) -> None:
    app = App()
    async with Fleet(app) as fleet:
        await fleet.get()
        app.status = status
        await fleet.get(method=method)
        assert (await fleet.get()).body == b"answer 1"


@pytest.mark.parametrize("status", [200, 201, 204, 303])
async def test_what_it_made_or_changed_is_gone_before_its_client_hears_of_it(status: int) -> None:
    app = App()
    async with Fleet(app) as fleet:
        for path in ("/list", "/list/7", "/view"):
            await fleet.get(path)
        app.status, app.headers = status, {"location": "/list/7", "content-location": "/view"}
        await fleet.get("/list", method="POST")
        app.status, app.headers = 200, cached()
        for path in ("/list", "/list/7", "/view"):
            assert "hit" not in status_of(await fleet.get(path))


@pytest.mark.parametrize(
    "location",
    [
        "http://other.test/x",
        "https://example.test/x",
        "http://example.test:81/x",
        "//other.test/x",
        "http://[",
    ],
)
async def test_nobody_invalidates_another_origin(location: str) -> None:
    app = App()
    async with Fleet(app) as fleet:
        for host in ("example.test", "other.test", "example.test:81"):
            await fleet.get("/x", host=host)
        app.headers = {"location": location, "content-location": location}
        assert (await fleet.get("/y", method="POST")).status == 200
        app.headers = cached()
        for host in ("example.test", "other.test", "example.test:81"):
            assert "hit" in status_of(await fleet.get("/x", host=host))


async def test_a_route_for_head_alone_or_get_alone_is_for_that_alone() -> None:
    app = App({})
    async with Fleet(app, routes=[CacheRoute("/*", ttl=60, methods=("GET",))]) as fleet:
        await fleet.get()
        assert "hit" in status_of(await fleet.get())
        assert "hit" not in status_of(await fleet.get(method="HEAD"))


async def test_an_answer_to_a_post_that_could_not_be_stored_makes_nobody_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = App(cached(content_location="/"))
    async with Fleet(app) as fleet:
        session = fleet.guards[0].engine.runtime().session
        with monkeypatch.context() as away:

            async def failing(name: str, **options: Any) -> bool:
                raise StoreUnavailable("no answer")

            away.setattr(session, "publish", failing)
            assert (await fleet.get(method="POST")).body == b"answer 1"
        async with asyncio.timeout(60):
            assert (await fleet.get()).body == b"answer 2"


@pytest.mark.parametrize("name", ["X-HTTP-Method-Override", "X_HTTP_Method_Override", "http-method-override"])
async def test_a_get_that_means_another_method_goes_past_the_cache_in_any_spelling(name: str) -> None:
    app = App(cached())
    async with Fleet(app) as fleet:
        await fleet.get()
        for number in (2, 3):
            answer = await request(fleet.middlewares[0], "GET", "/", fields=[(name, "DELETE")])
            assert answer.body == b"answer %d" % number
