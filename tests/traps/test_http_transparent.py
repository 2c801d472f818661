"""What is not answered from the store looks as without the cache, to the application and to the middlewares around."""

from __future__ import annotations

import asyncio
import contextvars
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route

from stampede_guard import StampedeGuard, StampedeMiddleware
from tests.http.asgi import request, scope_of
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.support.gate import until
from tests.traps.web import serving

INNER: contextvars.ContextVar[str] = contextvars.ContextVar("inner", default="unset")
OUTER: contextvars.ContextVar[str] = contextvars.ContextVar("outer", default="unset")
KINDS = [{"cache-control": "max-age=60"}, {"cache-control": "no-store"}, {}, {"cache-control": "private"}]


@pytest.mark.parametrize("headers", KINDS, ids=str)
@pytest.mark.parametrize("stale", [False, True])
async def test_scope_state_and_context_variables_go_both_ways(headers: dict[str, str], stale: bool) -> None:
    seen: dict[str, Any] = {}

    async def endpoint(request: Request) -> Response:
        INNER.set("by the endpoint")
        seen["outer"] = OUTER.get()
        request.state.user = "me"
        return PlainTextResponse("page", headers=headers | {"etag": '"a"'})

    app = Starlette(routes=[Mount("/shop", routes=[Route("/items/{number}", endpoint)])])
    guard = StampedeGuard.from_url("memory://")
    cache = StampedeMiddleware(app, guard=guard)

    async def outside(scope: Any, receive: Any, send: Any) -> None:
        OUTER.set("by the middleware")

        async def watch(message: Any) -> None:
            if message["type"] == "http.response.start":
                seen["at the first line"] = INNER.get()
            await send(message)

        await cache(scope, receive, watch)
        seen.update(
            inner=INNER.get(),
            endpoint=scope.get("endpoint"),
            params=scope.get("path_params"),
            state=scope["state"],
        )

    async with guard:
        if stale:
            await request(cache, "GET", "/shop/items/7", fields=[("cache-control", "no-cache")])
            seen.clear()
        fields = [("cache-control", "no-cache")] if stale else []
        # In a task of its own, as servers do: what it sets is not this test's.
        answer = await asyncio.create_task(request(outside, "GET", "/shop/items/7", fields=fields))
        assert answer.body == b"page"
    assert seen["outer"] == "by the middleware"
    assert seen["inner"] == seen["at the first line"] == "by the endpoint"
    assert seen["endpoint"] is not None and seen["params"] == {"number": "7"}
    assert seen["state"]["user"] == "me"


async def test_the_application_hears_of_its_client_leaving() -> None:
    heard = asyncio.Event()

    async def endpoint(request: Request) -> Response:
        while not await request.is_disconnected():  # noqa: ASYNC110 - it is what applications do
            await asyncio.sleep(0.01)
        heard.set()
        return PlainTextResponse("nobody reads this")

    async with serving(Starlette(routes=[Route("/", endpoint)])) as site:
        _, writer = await asyncio.open_connection("127.0.0.1", site.port)
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        await until(lambda: bool(site.guard.engine.runtime().flights))
        writer.close()
        async with asyncio.timeout(60):
            await heard.wait()


async def exchanged(fleet: Fleet, scope: dict[str, Any]) -> list[Any]:
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    await fleet.middlewares[0](scope, receive, send)
    return sent


BEFORE = [
    {"type": "http.response.early_hint", "links": [b"</a.css>"]},
    {"type": "http.response.push", "path": "/a.css", "headers": []},
    {"type": "http.response.debug", "info": {"template": "page"}},
]


@pytest.mark.parametrize("message", BEFORE, ids=lambda message: message["type"])
@pytest.mark.parametrize("headers", KINDS, ids=str)
async def test_what_is_sent_before_the_first_line_reaches_its_client(
    message: dict[str, Any], headers: dict[str, str]
) -> None:
    app = App()
    extensions: list[Any] = []

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        extensions.append(scope["extensions"])
        await send(message)
        await start(send, headers)
        await send({"type": "http.response.body", "body": b"page"})

    app.handler = handler
    async with Fleet(app) as fleet:
        given = {"http.response.early_hint": {}, "http.response.push": {}, "http.response.debug": {}}
        sent = await exchanged(fleet, scope_of("GET", "/", []) | {"extensions": given})
        assert extensions == [given]
        assert sent[0] is message
        assert [one["type"] for one in sent[1:]] == ["http.response.start", "http.response.body"]


@pytest.mark.parametrize("headers", KINDS, ids=str)
async def test_a_file_is_sent_by_the_server_and_stored_with_its_content(
    headers: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"content")
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        assert "http.response.pathsend" in scope["extensions"]
        await start(send, headers | {"content-length": "7"})
        await send({"type": "http.response.pathsend", "path": str(path)})

    app.handler = handler
    async with Fleet(app) as fleet:
        sent = await exchanged(
            fleet, scope_of("GET", "/", []) | {"extensions": {"http.response.pathsend": {}}}
        )
        assert sent[1] == {"type": "http.response.pathsend", "path": str(path)}
        if headers == KINDS[0]:
            answer = await fleet.get()
            assert "hit" in status_of(answer) and answer.body == b"content"


async def test_trailers_pass_and_what_has_them_is_not_stored() -> None:
    app = App()
    trailers = {"type": "http.response.trailers", "headers": [(b"x", b"1")], "more_trailers": False}

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await send(
            {
                "type": "http.response.start",
                "status": 200,
                "headers": [(b"cache-control", b"max-age=60")],
                "trailers": True,
            }
        )
        await send({"type": "http.response.body", "body": b"page"})
        await send(trailers)

    app.handler = handler
    async with Fleet(app) as fleet:
        for _ in range(2):
            sent = await exchanged(fleet, scope_of("GET", "/", []))
            assert sent[0]["trailers"] is True and sent[-1] is trailers
        assert app.calls == 2


@pytest.mark.parametrize("headers", KINDS[1:], ids=str)
async def test_an_error_of_sending_is_the_applications_to_see(headers: dict[str, str]) -> None:
    app = App()
    seen: list[BaseException] = []

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        try:
            await start(send, headers)
            await send({"type": "http.response.body", "body": b"page"})
        except OSError as error:
            seen.append(error)
            raise

    app.handler = handler
    async with Fleet(app) as fleet:

        async def send(message: Any) -> None:
            raise OSError("gone")

        async def receive() -> Any:
            return {"type": "http.disconnect"}

        with pytest.raises(OSError, match="gone"):
            await fleet.middlewares[0](scope_of("GET", "/", []), receive, send)
        assert len(seen) == 1


@pytest.mark.parametrize("headers", KINDS, ids=str)
@pytest.mark.parametrize("when", ["before", "after"])
async def test_what_the_application_raises_reaches_the_middleware_around(
    headers: dict[str, str], when: str
) -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        if when == "before":
            raise LookupError("mine")
        await start(send, headers)
        await send({"type": "http.response.body", "body": b"page"})
        raise LookupError("mine")

    app.handler = handler
    async with Fleet(app) as fleet:
        with pytest.raises(LookupError, match="mine"):
            await fleet.get()


async def test_a_cancelled_request_cancels_its_application_where_nobody_else_waits() -> None:
    app = App()
    ended = asyncio.Event()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    app.handler = handler
    async with Fleet(app) as fleet:
        task = asyncio.ensure_future(fleet.get())
        await app.called.wait()
        task.cancel()
        await asyncio.wait({task})
        assert ended.is_set()


@pytest.mark.parametrize("version", ["2", "2.0", "3"])
@pytest.mark.parametrize("stored", [False, True])
async def test_the_body_of_an_http2_get_reaches_the_application_and_nothing_is_stored(
    version: str, stored: bool
) -> None:
    app = App()
    bodies: list[bytes] = []

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        bodies.append((await receive())["body"])
        await start(send, cached())
        await send({"type": "http.response.body", "body": b"page %d" % number})

    app.handler = handler
    async with Fleet(app) as fleet:
        if stored:
            await fleet.get()
        sent: list[Any] = []

        async def send(message: Any) -> None:
            sent.append(message)

        async def receive() -> Any:
            return {"type": "http.request", "body": b"question", "more_body": False}

        await fleet.middlewares[0](scope_of("GET", "/", []) | {"http_version": version}, receive, send)
        assert bodies[-1] == b"question"
        assert sent[1]["body"] == b"page %d" % (stored + 1)
        assert (await fleet.get()).body != b"page 2" if stored else True
        calls = app.calls
        await fleet.middlewares[0](scope_of("GET", "/", []) | {"http_version": version}, receive, send)
        assert app.calls == calls + 1


async def test_the_end_of_an_empty_body_is_told_once_in_however_many_messages_it_comes() -> None:
    """httpx tells an empty body in two. A middleware of Starlette raises at a body after the end of one."""
    read: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        while not read or read[-1] != "http.disconnect":
            message = await receive()
            read.append(message["type"] if message["type"] != "http.request" else str(message["more_body"]))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"answer"})

    messages = [
        {"type": "http.request", "body": b"", "more_body": True},
        {"type": "http.request", "body": b"", "more_body": False},
        {"type": "http.disconnect"},
    ]

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        pass

    async with Fleet(app) as fleet:
        await fleet.middlewares[0](scope_of("GET", "/", []), receive, send)
    assert read == ["False", "http.disconnect"]
