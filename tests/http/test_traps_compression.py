"""Compression inside of the cache and outside of it: each gets what he can read, from as few entries as can be."""

from __future__ import annotations

import gzip
import zlib
from typing import Any

import pytest
from starlette.middleware.gzip import GZipMiddleware

from stampede_guard import StampedeGuard, StampedeMiddleware
from tests.http.asgi import request
from tests.http.fleet import App, Fleet, cached, start, status_of
from tests.http.suite.play import Answer

TEXT = b"compress me " * 200


class BrotliMiddleware:
    """As such middlewares are: by substring, whatever the weights say. (What it calls `br` is not: that changes nothing
    here.)"""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        accepted = dict(scope["headers"]).get(b"accept-encoding", b"")
        head: list[Any] = []

        async def forward(message: Any) -> None:
            if message["type"] == "http.response.start":
                head.append(message)
                return
            fields = [*head.pop()["headers"], (b"vary", b"Accept-Encoding")]
            body = message["body"]
            if b"br" in accepted:
                body = zlib.compress(body)
                fields = [(name, value) for name, value in fields if name != b"content-length"]
                fields.append((b"content-encoding", b"br"))
            await send({"type": "http.response.start", "status": 200, "headers": fields})
            await send({"type": "http.response.body", "body": body})

        await self._app(scope, receive, forward)


def page(headers: dict[str, str] | None = None) -> App:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        await start(send, cached(content_type="text/plain", content_length=str(len(TEXT))) | (headers or {}))
        await send({"type": "http.response.body", "body": TEXT})

    app.handler = handler
    return app


def plain(answer: Answer) -> bytes:
    match answer.get("content-encoding"):
        case "gzip":
            return gzip.decompress(answer.body)
        case "br":
            return zlib.decompress(answer.body)
        case other:
            assert other is None
            return answer.body


ACCEPTED = {
    "gzip": ["gzip", "GZIP", "x-gzip", "gzip;q=1.0", "gzip, gzip", " gzip ,"],
    "br": ["br", "br;q=1", "Br"],
    None: ["", "identity", "identity;q=1.000"],
}


@pytest.mark.parametrize("middleware", [GZipMiddleware, BrotliMiddleware])
async def test_inside_there_is_one_entry_for_each_meaning_of_accept_encoding(middleware: Any) -> None:
    app = page()
    async with Fleet(middleware(app)) as fleet:
        for values in ACCEPTED.values():
            for value in values * 2:
                answer = await fleet.get(accept_encoding=value)
                assert plain(answer) == TEXT
                assert "accept-encoding" in (answer.get("vary") or "").lower()
        # Nothing accepted and "identity" differ in what they say, which no cache can know to be the same.
        assert app.calls == len(ACCEPTED) + 1


@pytest.mark.parametrize("middleware", [GZipMiddleware, BrotliMiddleware])
async def test_inside_nobody_is_served_what_he_refuses(middleware: Any) -> None:
    app = page()
    async with Fleet(middleware(app)) as fleet:
        for accepted, readable in (
            ("gzip", "gzip"),
            ("br", "br"),
            ("gzip, br", None),
            ("deflate", "deflate"),
        ):
            for _ in range(2):
                answer = await fleet.get(accept_encoding=accepted)
                assert plain(answer) == TEXT
                assert readable is None or answer.get("content-encoding") in (readable, None)


async def test_outside_there_is_one_entry_and_each_hit_is_compressed_for_its_client() -> None:
    app = page({"etag": '"a"'})
    guard = StampedeGuard.from_url("memory://")
    whole = GZipMiddleware(StampedeMiddleware(app, guard=guard), minimum_size=10)
    async with guard:
        for number, accepted in enumerate(["gzip", "", "br", "gzip"]):
            answer = await request(whole, "GET", "/", fields=[("accept-encoding", accepted)])
            assert plain(answer) == TEXT
            assert (answer.get("content-encoding") == "gzip") is (accepted == "gzip")
            assert ("hit" in status_of(answer)) is (number > 0)
            head = await request(whole, "HEAD", "/", fields=[("accept-encoding", accepted)])
            assert head.body in (b"",) or accepted == "gzip"
        asked = [("accept-encoding", "gzip"), ("if-none-match", '"a"')]
        assert (await request(whole, "GET", "/", fields=asked)).status == 304
        assert app.calls == 1


async def test_a_range_of_a_compressed_answer_is_of_its_compressed_bytes_and_says_so() -> None:
    app = page()
    async with Fleet(GZipMiddleware(app)) as fleet:
        answer = await fleet.get(accept_encoding="gzip")
        part = await fleet.get(accept_encoding="gzip", range="bytes=0-9")
        assert (part.status, part.body) == (206, answer.body[:10])
        assert part.get("content-encoding") == "gzip"
        assert part.get("content-range") == f"bytes 0-9/{len(answer.body)}"


async def test_the_variants_of_a_page_go_with_it() -> None:
    app = page()
    async with Fleet(GZipMiddleware(app)) as fleet:
        for accepted in ("gzip", ""):
            await fleet.get(accept_encoding=accepted)
        await fleet.get(method="PUT")
        for accepted in ("gzip", ""):
            assert "hit" not in status_of(await fleet.get(accept_encoding=accepted))


async def test_the_second_of_two_codings_counts_too() -> None:
    app = App()

    async def handler(scope: Any, receive: Any, send: Any, number: int) -> None:
        codings = [(b"content-encoding", b"identity"), (b"content-encoding", b"gzip")]
        headers = [(b"cache-control", b"max-age=60"), *codings]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"answer %d" % number})

    app.handler = handler
    async with Fleet(app) as fleet:
        await fleet.get(accept_encoding="gzip")
        assert (await fleet.get()).body == b"answer 2"
        assert (await fleet.get(accept_encoding="gzip")).body == b"answer 1"
