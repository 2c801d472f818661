"""The middleware as a part of an application: its lifespan, other protocols, frameworks, and what a flight runs in."""

from __future__ import annotations

import asyncio
import contextvars
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI, HTTPException
from starlette.background import BackgroundTask
from starlette.middleware.gzip import GZipMiddleware
from starlette.responses import JSONResponse

from stampede_guard import CacheRoute, StampedeGuard, StampedeMiddleware, cache_control
from tests.http.fleet import App, Fleet, status_of
from tests.support.inside import runtimes_of


async def test_it_closes_the_guard_before_the_application_ends() -> None:
    order: list[str] = []
    guard = StampedeGuard.from_url("memory://")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await App()(scope, receive, send)
            return
        await receive()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        order.append("still open" if runtimes_of(guard) else "closed")
        await send({"type": "lifespan.shutdown.complete"})

    middleware = StampedeMiddleware(app, guard=guard)
    messages: asyncio.Queue[Any] = asyncio.Queue()
    lifespan = asyncio.ensure_future(middleware({"type": "lifespan"}, messages.get, _ignore))
    messages.put_nowait({"type": "lifespan.startup"})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(middleware), base_url="http://a") as client:
        await client.get("/")
    assert runtimes_of(guard)
    messages.put_nowait({"type": "lifespan.shutdown"})
    await lifespan
    assert order == ["closed"]


async def _ignore(message: Any) -> None:
    pass


async def test_other_protocols_pass_untouched() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope, receive, send))

    scope = {"type": "websocket"}
    await StampedeMiddleware(app)(scope, _ignore, _ignore)
    assert seen == [(scope, _ignore, _ignore)]


async def test_fastapi_endpoints_say_what_is_cached_and_errors_are_not() -> None:
    calls = 0
    app = FastAPI()
    guard = StampedeGuard.from_url("memory://")
    app.add_middleware(GZipMiddleware, minimum_size=10)
    app.add_middleware(StampedeMiddleware, guard=guard)

    @app.get("/items/{number}", dependencies=[Depends(cache_control(max_age=60, vary=("x-tenant",)))])
    async def item(number: int) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if number == 0:
            raise HTTPException(404)
        return {"number": number, "text": "x" * 100}

    transport = httpx.ASGITransport(app)
    async with guard, httpx.AsyncClient(transport=transport, base_url="http://a") as client:
        first, second = await client.get("/items/1"), await client.get("/items/1")
        assert first.json() == second.json()
        assert first.headers["content-encoding"] == second.headers["content-encoding"] == "gzip"
        assert "hit" in second.headers["cache-status"]
        plain = await client.get("/items/1", headers={"accept-encoding": "identity"})
        assert "content-encoding" not in plain.headers
        assert plain.json() == first.json()
        assert calls == 2
        for _ in range(2):
            assert (await client.get("/items/0")).status_code == 404
        assert calls == 4


async def test_background_tasks_run_and_their_request_does_not_wait_for_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stampede_guard.http.streaming.BACKGROUND_SECONDS", 0.01)
    go, done = asyncio.Event(), asyncio.Event()

    async def task() -> None:
        await go.wait()
        done.set()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        response = JSONResponse({}, headers={"cache-control": "max-age=60"}, background=BackgroundTask(task))
        await response(scope, receive, send)

    async with Fleet(app) as fleet:
        assert (await fleet.get()).status == 200
        assert "hit" in status_of(await fleet.get())
        go.set()
        await asyncio.wait_for(done.wait(), 60)


async def test_a_call_sees_the_context_of_the_request_that_it_is_made_for() -> None:
    request_id = contextvars.ContextVar("request_id", default="none")

    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = request_id.get().encode()
        await send(
            {"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"max-age=9")]}
        )
        await send({"type": "http.response.body", "body": body})

    async with Fleet(app) as fleet:
        request_id.set("mine")
        assert (await fleet.get()).body == b"mine"


async def test_an_application_that_calls_itself_with_the_same_url_is_told_so() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        inner = await fleet.get()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": inner.body})

    async with Fleet(app, routes=[CacheRoute("/*", ttl=9)]) as fleet, asyncio.timeout(60):
        try:
            await fleet.get()
        except Exception as error:
            assert "itself" in str(error)
        else:
            raise AssertionError("it was answered")


async def test_hooks_are_told_of_hits_and_misses_by_kind_and_not_by_url() -> None:
    events: list[Any] = []
    async with Fleet(App()) as fleet:
        fleet.guards[0].add_hook(events.append)
        for _ in range(2):
            await fleet.get("/secret")
        kinds = [type(event).__name__ for event in events]
        assert kinds[0] == "Miss"
        assert kinds[-1] == "Hit"
        assert {event.function for event in events} == {"http"}
