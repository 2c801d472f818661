"""The HTTP cache in front of Flask, as docs/flask.md proposes: an ASGI server, and a2wsgi between both."""

from __future__ import annotations

import asyncio
import threading

import httpx
from a2wsgi import WSGIMiddleware
from flask import Flask, Response, make_response

from stampede_guard import StampedeGuard, StampedeMiddleware
from tests.support.sessions import patient

PATIENCE = 60.0


async def test_the_middleware_lets_one_request_through_to_flask(valkey_url: str, namespace: str) -> None:
    app = Flask("shop")
    calls: list[str] = []
    arrived, opened = threading.Event(), threading.Event()

    @app.get("/page")
    def page() -> Response:
        calls.append("page")
        arrived.set()
        assert opened.wait(PATIENCE)
        response = make_response("page")
        response.cache_control.max_age = 600
        return response

    @app.get("/own")
    def own() -> Response:
        calls.append("own")
        response = make_response("own")
        response.cache_control.max_age = 600
        response.set_cookie("seen", "1")
        return response

    async with StampedeGuard.from_url(patient(valkey_url), namespace=namespace) as guard:
        asgi = StampedeMiddleware(WSGIMiddleware(app, workers=8), guard=guard)
        transport = httpx.ASGITransport(app=asgi)  # type: ignore[arg-type]
        async with (
            httpx.AsyncClient(transport=transport, base_url="http://shop") as client,
            asyncio.timeout(PATIENCE),
        ):
            herd = [asyncio.create_task(client.get("/page")) for _ in range(20)]
            await asyncio.to_thread(arrived.wait, PATIENCE)
            opened.set()
            assert {answer.text for answer in await asyncio.gather(*herd)} == {"page"}
            assert "hit" in (await client.get("/page")).headers["Cache-Status"]
            client.cookies.clear()
            for _ in range(2):
                assert (await client.get("/own", headers={"Cookie": ""})).text == "own"
    assert calls == ["page", "own", "own"]
