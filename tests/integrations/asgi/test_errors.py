"""Starlette, Litestar, Quart, aiohttp: errors become answers that callers can use, and the guard closes in time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp.test_utils
import httpx
import litestar
import pytest
import quart
from aiohttp import web

from stampede_guard import StampedeGuard
from stampede_guard.errors import (
    ComputeFailed,
    ComputeTimeout,
    Misuse,
    Overloaded,
    StampedeError,
    StoreRefused,
    StoreUnavailable,
    WaitTimeout,
)
from stampede_guard.integrations import aiohttp as for_aiohttp
from stampede_guard.integrations import quart as for_quart
from tests.integrations.asgi import apps
from tests.support.fixtures import guards_on
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards

guards = guards_on("valkey")
Get = Callable[[str], Any]


@contextlib.asynccontextmanager
async def serving(framework: str, guard: StampedeGuard, compute: apps.Compute) -> AsyncIterator[Get]:
    """`get(path)`: status, JSON and headers of an answer. The application runs with its lifespan."""
    if framework == "aiohttp":
        server = aiohttp.test_utils.TestServer(apps.aiohttp_app(guard, compute))
        async with aiohttp.test_utils.TestClient(server) as client:

            async def asked(path: str) -> Any:
                async with client.get(path) as answer:
                    body = await (answer.json() if "json" in answer.content_type else answer.text())
                    return answer.status, body, answer.headers

            yield asked
        return
    if framework == "litestar":
        app: Any = apps.litestar_app(guard, compute)
        running: Any = app.lifespan()
    elif framework == "starlette":
        app = apps.starlette_app(guard, compute)
        running = app.router.lifespan_context(app)
    else:
        app = apps.quart_app(guard, compute)
        running = app.test_app()
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with running, httpx.AsyncClient(transport=transport, base_url="http://shop") as told:

        async def got(path: str) -> Any:
            answer = await told.get(path)
            kind = answer.headers.get("content-type", "")
            return answer.status_code, answer.json() if "json" in kind else answer.text, answer.headers

        yield got


frameworks = pytest.mark.parametrize("framework", ["starlette", "litestar", "quart", "aiohttp"])


def raising(error: Exception) -> apps.Compute:
    async def compute(what: str, project: int) -> int:
        raise error

    return compute


@frameworks
async def test_the_handler_keeps_its_parameters_and_is_computed_once(framework: str, guards: Guards) -> None:
    computed: list[int] = []

    async def compute(what: str, project: int) -> int:
        computed.append(project)
        return project * 10

    async with serving(framework, guards.guard(), compute) as get:
        for project in (7, 7, 8):
            status, found, _ = await get(f"/report/{project}")
            assert (status, found) == (200, {"project": project, "rows": project * 10})
    assert computed == [7, 8]


ANSWERS: list[tuple[StampedeError, int, str | None]] = [
    (WaitTimeout("x", retry_after=2.5), 503, "3"),
    (Overloaded("x"), 503, "1"),
    (StoreUnavailable("secret-name"), 503, "5"),
    (StoreRefused("secret-name"), 503, "5"),
    (ComputeTimeout("x"), 504, None),
    (ComputeFailed("shop.NotHere", "secret-text", status_code=404), 404, None),
    (ComputeFailed("shop.Broken", "secret-text"), 500, None),
]


@frameworks
@pytest.mark.parametrize(
    ("error", "status", "retry_after"),
    ANSWERS,
    ids=lambda it: type(it).__name__ if isinstance(it, Exception) else None,
)
async def test_errors_of_the_guard_have_a_status_and_tell_no_secret(
    framework: str, error: StampedeError, status: int, retry_after: str | None, guards: Guards
) -> None:
    async with serving(framework, guards.guard(mode="off"), raising(error)) as get:
        found, body, headers = await get("/report/7")
    assert (found, headers.get("Retry-After")) == (status, retry_after)
    assert "secret" not in str(body)


@frameworks
async def test_an_error_of_the_shop_keeps_its_answer_for_everyone(framework: str, guards: Guards) -> None:
    gate, computed = Gate(), []

    async def compute(what: str, project: int) -> int:
        computed.append(project)
        await gate.hold()
        raise apps.OutOfStock(project)

    guard = guards.guard(error_ttl=60)
    async with (
        serving(framework, guard, compute) as get,
        serving(framework, guards.guard(), compute) as other,
    ):
        calls = [asyncio.create_task(get("/report/7")) for _ in range(3)]
        await gate.arrival()
        await until(lambda: aboard(guard) >= 3)
        gate.open()
        answers = await asyncio.gather(*calls)
        answers += [await get("/report/7"), await other("/report/7")]
    assert [(status, body) for status, body, _ in answers] == [(409, {"article": 7})] * 5
    assert computed == [7]


def aboard(guard: StampedeGuard) -> int:
    return sum(flight.joined for flight in guard.engine.runtime().flights.values())


@frameworks
async def test_a_computation_under_way_may_end_before_what_it_uses_is_closed(
    framework: str, guards: Guards
) -> None:
    gate, order = Gate(), list[str]()

    async def compute(what: str, project: int) -> int:
        await gate.hold()
        order.append("computed")
        return project

    guard = guards.guard()

    @contextlib.asynccontextmanager
    async def database(_: Any = None) -> AsyncIterator[None]:
        yield
        order.append("closed")

    async def leave(running: Any) -> None:
        async with running:
            caller = asyncio.create_task(guard.get_or_compute("k", lambda: compute("k", 7)))
            await gate.arrival()
            asyncio.get_running_loop().call_soon(gate.open)
        assert await caller == 7

    match framework:
        case "litestar":
            running: Any = apps.litestar_app(guard, compute, lifespan=[database]).lifespan()
        case "starlette":
            shop = apps.starlette_app(guard, compute, lifespan=database)
            running = shop.router.lifespan_context(shop)
        case "quart":
            app = quart.Quart("shop")

            @app.while_serving
            async def opened() -> AsyncIterator[None]:
                async with database():
                    yield

            for_quart.install(guard, app)
            running = app.test_app()
        case _:
            site = web.Application()
            site.cleanup_ctx.append(lambda _: database().gen)  # type: ignore[attr-defined]
            for_aiohttp.install(guard, site)
            running = aiohttp.test_utils.TestServer(site)
    await soon(leave(running))
    assert order == ["computed", "closed"]


@pytest.mark.parametrize("install", [for_quart.install, for_aiohttp.install])
def test_another_application_is_refused(install: Any, guards: Guards) -> None:
    with pytest.raises(Misuse, match=r"install\(\) takes an? .*, not Litestar"):
        install(guards.guard(), litestar.Litestar([]))


async def test_the_request_of_one_caller_is_out_of_reach_of_what_all_callers_share(guards: Guards) -> None:
    app, guard = quart.Quart("shop"), guards.guard()

    @app.get("/mine")
    @guard.locked_cache(ttl=60)
    async def mine() -> str:
        return str(quart.request.headers["X-User"])

    for_quart.install(guard, app)
    answer = await app.test_client().get("/mine", headers={"X-User": "ada"})
    assert answer.status_code == 500
    await guard.aclose()
