"""Applications that are mounted in the one that the guard was installed in."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI
from fastapi.responses import PlainTextResponse
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount

from stampede_guard import StampedeGuard
from stampede_guard.errors import ComputeTimeout
from stampede_guard.testing import FaultyStore

ORDERS = ["mounted first", "installed first", "below a middleware", "two levels"]


def mounted(order: str, guard: StampedeGuard, api: FastAPI) -> Any:
    if order == "below a middleware":
        outer: Any = Starlette(routes=[Mount("/api", api, middleware=[Middleware(GZipMiddleware)])])
        guard.install(outer)
        return outer
    root, middle = FastAPI(), FastAPI()
    if order == "two levels":
        middle.mount("", api)
    inner = middle if order == "two levels" else api
    if order == "installed first":
        guard.install(root)
    root.mount("/api", inner)
    if order != "installed first":
        guard.install(root)
    return root


async def ask(app: Any, path: str, method: str = "GET") -> httpx.Response:
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        return await client.request(method, path)


@pytest.mark.parametrize("order", ORDERS)
async def test_a_mounted_application_answers_the_errors_of_its_functions(order: str) -> None:
    store = FaultyStore()
    guard, api = StampedeGuard(store, namespace="shop"), FastAPI()

    @api.get("/slow")
    @guard.locked_cache(ttl=60, compute_timeout=0.01)
    async def slow() -> int:
        return await asyncio.Event().wait()

    @api.post("/forget")
    async def forget() -> None:
        await slow.invalidate()

    app = mounted(order, guard, api)
    assert (await ask(app, "/api/slow")).status_code == 504
    store.refuse()
    answer = await ask(app, "/api/forget", "POST")
    assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
    store.recover()
    await guard.aclose()


async def test_its_own_handlers_stay() -> None:
    guard, api = StampedeGuard.from_url("memory://"), FastAPI()

    @api.exception_handler(ComputeTimeout)
    async def own(request: Any, error: Exception) -> Any:
        return PlainTextResponse("later", status_code=418)

    @api.get("/slow")
    @guard.locked_cache(ttl=60, compute_timeout=0.01)
    async def slow() -> int:
        return await asyncio.Event().wait()

    assert (await ask(mounted("mounted first", guard, api), "/api/slow")).status_code == 418
    await guard.aclose()


@pytest.mark.parametrize("order", ORDERS)
async def test_the_overrides_of_a_mounted_application_are_its_own(order: str) -> None:
    guard, api = StampedeGuard.from_url("memory://"), FastAPI()

    def database() -> str:
        return "of production"

    @api.get("/database")
    @guard.locked_cache(ttl=60, resources={"used": database})
    async def of_database(number: int, used: str) -> str:
        return used

    @api.get("/plain")
    async def plain(used: str = Depends(database)) -> str:
        return used

    app = mounted(order, guard, api)
    if hasattr(app, "dependency_overrides"):
        app.dependency_overrides[database] = lambda: "of the root"
    for expected in ("of production", "of a test"):
        cached = await ask(app, f"/api/database?number={len(expected)}")
        assert cached.json() == (await ask(app, "/api/plain")).json() == expected
        api.dependency_overrides[database] = lambda: "of a test"
    await guard.aclose()
