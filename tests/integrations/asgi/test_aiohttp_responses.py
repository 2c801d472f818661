"""An error of aiohttp is a response, too: each caller gets one of its own, with its headers and body."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import aiohttp.test_utils
import pytest
from aiohttp import web

from stampede_guard.integrations import aiohttp as for_aiohttp
from stampede_guard.values.failures import stand_in
from tests.support.gate import Gate
from tests.support.guards import Guards, joined

CALLERS = 3
ERRORS: dict[str, tuple[Callable[[], web.HTTPException], int, dict[str, str]]] = {
    "redirect": (lambda: web.HTTPFound("/login"), 302, {"Location": "/login"}),
    "not found": (lambda: web.HTTPNotFound(headers={"X-Shop": "open"}, text="gone"), 404, {"X-Shop": "open"}),
    "too many": (lambda: web.HTTPTooManyRequests(headers={"Retry-After": "7"}), 429, {"Retry-After": "7"}),
    "method": (lambda: web.HTTPMethodNotAllowed("GET", ["POST"]), 405, {"Allow": "POST"}),
}


@pytest.mark.parametrize("kind", ERRORS)
async def test_each_caller_gets_the_whole_response_with_its_own_cookies(kind: str, guards: Guards) -> None:
    make, status, headers = ERRORS[kind]
    guard, gate = guards.guard(), Gate()
    computed: list[str] = []

    @guard.locked_cache(ttl=60, error_ttl=60)
    async def report() -> int:
        computed.append(kind)
        await gate.hold()
        raise make()

    @web.middleware
    async def sessions(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            answer: web.StreamResponse = await handler(request)
        except web.HTTPException as error:
            error.set_cookie("visitor", request.query["visitor"])
            raise
        return answer

    async def handler(request: web.Request) -> web.Response:
        return web.json_response(await report())

    app = web.Application(middlewares=[sessions])
    app.router.add_get("/", handler)
    for_aiohttp.install(guard, app)
    async with aiohttp.test_utils.TestClient(aiohttp.test_utils.TestServer(app)) as client:

        async def visit(number: int) -> tuple[Any, ...]:
            answer = await client.get("/", params={"visitor": number}, allow_redirects=False)
            cookies = [one.partition(";")[0] for one in answer.headers.getall("Set-Cookie", [])]
            return answer.status, {name: answer.headers.get(name) for name in headers}, cookies

        visits = [asyncio.create_task(visit(number)) for number in range(CALLERS)]
        await gate.arrival()
        await joined(guard, report.key(), CALLERS)
        gate.open()
        seen = [*await asyncio.gather(*visits), await visit(CALLERS)]
    assert seen == [(status, headers, [f"visitor={number}"]) for number in range(CALLERS + 1)]
    assert computed == [kind]


def test_who_cannot_have_a_redirect_gets_no_redirect_without_a_place() -> None:
    assert stand_in(web.HTTPFound("/login")).status_code is None
    assert stand_in(web.HTTPGone()).status_code == 410
