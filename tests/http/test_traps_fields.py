"""What header fields go where: one Date, nothing of one connection, names in lower case, a 304 with its tag."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
import uvicorn

from stampede_guard import StampedeGuard, StampedeMiddleware
from stampede_guard.http.spec.dates import format_date
from tests.http.fleet import App, Fleet, cached, start, status_of

HOPS = {
    "connection": "close, x-private",
    "x-private": "1",
    "keep-alive": "timeout=5",
    "proxy-authenticate": "Basic",
    "proxy-connection": "close",
    "te": "trailers",
    "upgrade": "h2c",
}
DATE = "Tue, 14 Nov 2023 22:13:20 GMT"
"""Now, on the clock that is moved by hand."""


async def test_what_belongs_to_one_connection_goes_neither_to_the_first_client_nor_into_the_store() -> None:
    app = App(cached() | HOPS | {"x-public": "2"})
    async with Fleet(app) as fleet:
        for answer in (await fleet.get(), await fleet.get()):
            names = {name for name, _ in answer.fields}
            assert not names & set(HOPS)
            assert answer.get("x-public") == "2"


async def test_no_field_is_added_that_connection_lists_by_a_304() -> None:
    app = App({"cache-control": "max-age=10", "etag": '"a"', "x": "1"})

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, {"etag": '"a"', "connection": "x", "x": "2"}, 304)
        await send({"type": "http.response.body", "body": b""})

    async with Fleet(app) as fleet:
        await fleet.get()
        fleet.clock.advance(20)
        app.handler = handler
        for answer in (await fleet.get(), await fleet.get()):
            assert answer.get("x") == "1"
            assert answer.get("connection") is None


async def test_a_stored_answer_has_the_date_of_its_application_or_none() -> None:
    for date in ({}, {"date": DATE}):
        app = App(cached() | date)
        async with Fleet(app) as fleet:
            for _ in range(3):
                answer = await fleet.get()
                assert [value for name, value in answer.fields if name == "date"] == list(date.values())
                fleet.clock.advance(7)


@pytest.mark.parametrize("headers", [cached(), {"cache-control": "no-store"}], ids=["stored", "not"])
@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "OPTIONS"])
async def test_names_are_in_lower_case_however_the_application_writes_them(
    headers: dict[str, str], method: str
) -> None:
    app = App({name.title(): value for name, value in headers.items()} | {"ETag": '"a"', "X-Some": "Thing"})
    async with Fleet(app, x_cache=True) as fleet:
        for _ in range(2):
            answer = await fleet.get(method=method)
            assert all(name == name.lower() for name, _ in answer.fields)
            assert answer.get("x-some") == "Thing"
            assert sum(name == "cache-status" for name, _ in answer.fields) == 1


async def test_a_304_from_the_store_has_its_tag_and_what_else_it_must_and_no_body() -> None:
    app = App(cached(etag='W/"a"', date=DATE, vary="accept", content_location="/x", content_type="text/x"))
    async with Fleet(app) as fleet:
        await fleet.get()
        answer = await fleet.get(if_none_match='"a"')
        assert (answer.status, answer.body) == (304, b"")
        for name in ("etag", "date", "vary", "content-location", "cache-control", "age"):
            assert answer.get(name) is not None, name
        assert answer.get("content-type") is None
        assert answer.get("content-length") is None


async def test_a_304_from_the_store_may_be_read_by_the_scripts_that_may_read_the_whole() -> None:
    fields = {"access-control-allow-origin": "https://a.test", "access-control-expose-headers": "etag"}
    app = App(cached(etag='"a"') | fields)
    async with Fleet(app) as fleet:
        await fleet.get(origin="https://a.test")
        answer = await fleet.get(origin="https://a.test", if_none_match='"a"')
        assert (answer.status, "hit" in status_of(answer)) == (304, True)
        assert all(answer.get(name) == value for name, value in fields.items())


async def test_set_cookie_lines_stay_apart() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        fields = [(b"cache-control", b"max-age=60"), (b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")]
        await send({"type": "http.response.start", "status": 200, "headers": fields})
        await send({"type": "http.response.body", "body": b""})

    app.handler = handler
    async with Fleet(app, set_cookie="store") as fleet:
        for _ in range(2):
            answer = await fleet.get()
            assert [value for name, value in answer.fields if name == "set-cookie"] == ["a=1", "b=2"]
        assert "hit" in status_of(answer)


@contextlib.asynccontextmanager
async def listening(app: Any, **options: Any) -> AsyncIterator[int]:
    config = uvicorn.Config(app, port=0, log_level="critical", lifespan="off", **options)
    server = uvicorn.Server(config)
    task = asyncio.ensure_future(server.serve())
    try:
        async with asyncio.timeout(60):
            while not server.started:
                assert not task.done()
                await asyncio.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        await task


async def raw(port: int, request: bytes) -> tuple[bytes, bytes]:
    """Head and body of the answer, as they came."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(request)
        async with asyncio.timeout(60):
            head = await reader.readuntil(b"\r\n\r\n")
            return head, await reader.read()
    finally:
        writer.close()


GET = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n"


@pytest.mark.parametrize("http", ["h11", "httptools"])
async def test_through_uvicorn_as_we_say_to_run_it_there_is_one_date_and_it_does_not_move(http: str) -> None:
    guard = StampedeGuard.from_url("memory://")
    date = format_date(time.time()).decode()
    app = StampedeMiddleware(App(cached(date=date, content_length="8")), guard=guard)
    async with guard, listening(app, date_header=False, http=http) as port:
        for _ in range(2):
            head, body = await raw(port, GET)
            dates = [line for line in head.split(b"\r\n") if line.lower().startswith(b"date:")]
            assert dates == [b"date: " + date.encode()]
            assert body == b"answer 1"
            lengths = [line for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")]
            assert lengths == [b"content-length: 8"]
