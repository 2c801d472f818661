"""What an application of `guard.install` answers to errors of computations that it cannot have as they were."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request
from fastapi.responses import PlainTextResponse
from starlette.applications import Starlette
from starlette.routing import Route

from stampede_guard import StampedeGuard
from stampede_guard.errors import ComputeFailed, ComputeTimeout, StampedeError
from stampede_guard.stores.memory import MemoryStore

Make = Callable[[], Any]


def fastapi_app() -> FastAPI:
    return FastAPI()


def starlette_app() -> Starlette:
    return Starlette()


async def answer(app: Any, error: Exception) -> tuple[int, str]:
    """What the application answers when an endpoint raises this."""

    async def endpoint(request: Request) -> Any:
        raise error

    app.router.routes.append(Route("/", endpoint))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        reply = await client.get("/")
    return reply.status_code, reply.text


def installed(make: Make, handlers: dict[Any, Any] | None = None) -> Any:
    app = make()
    for kind, handler in (handlers or {}).items():
        app.add_exception_handler(kind, handler)
    StampedeGuard(MemoryStore()).install(app)
    return app


async def own(request: Request, error: Exception) -> PlainTextResponse:
    return PlainTextResponse(f"own {type(error).__name__}", 418)


def plain(request: Request, error: Exception) -> PlainTextResponse:
    return PlainTextResponse(f"plain {type(error).__name__}", 418)


class Handler:
    async def __call__(self, request: Request, error: Exception) -> PlainTextResponse:
        return await own(request, error)


@pytest.fixture(params=[fastapi_app, starlette_app])
def make(request: pytest.FixtureRequest) -> Make:
    found: Make = request.param
    return found


async def test_the_originals_status_is_answered_without_its_text(make: Make) -> None:
    status, text = await answer(installed(make), ComputeFailed("NotFound", "row 7 of bob", status_code=404))
    assert status == 404 and "Not Found" in text and "bob" not in text


async def test_a_status_without_a_name_is_answered_too(make: Make) -> None:
    status, text = await answer(installed(make), ComputeFailed("X", "row 7 of bob", status_code=499))
    assert status == 499 and "bob" not in text


async def test_without_a_status_it_is_a_500(make: Make) -> None:
    assert (await answer(installed(make), ComputeFailed("X", "y")))[0] == 500


@pytest.mark.parametrize("handler", [own, plain, Handler()], ids=["async", "plain", "object"])
async def test_the_applications_handlers_for_the_status_and_for_all_errors_are_used(
    make: Make, handler: Any
) -> None:
    failed = ComputeFailed("X", "y", status_code=404)
    for kind in (404, HTTPException if make is fastapi_app else Exception):
        app = installed(make, {kind: handler})
        error = failed if kind is not Exception else ComputeFailed("X", "y")
        status, text = await answer(app, error)
        assert status == 418 and text.endswith("HTTPException" if kind is not Exception else "ComputeFailed")


@pytest.mark.parametrize("kind", [ComputeFailed, StampedeError, Exception])
async def test_an_applications_own_handler_for_failures_stays(make: Make, kind: type[Exception]) -> None:
    app = installed(make, {kind: own})
    assert await answer(app, ComputeFailed("X", "y")) == (418, "own ComputeFailed")


async def test_a_computation_that_took_too_long_is_a_504_unless_the_application_says_otherwise(
    make: Make,
) -> None:
    assert (await answer(installed(make), ComputeTimeout("shop.rows: no result")))[0] == 504
    app = installed(make, {ComputeTimeout: own})
    assert await answer(app, ComputeTimeout("shop.rows: no result")) == (418, "own ComputeTimeout")


async def test_handlers_that_are_added_after_install_are_known(make: Make) -> None:
    app = installed(make)
    app.add_exception_handler(404, own)
    assert await answer(app, ComputeFailed("X", "y", status_code=404)) == (418, "own HTTPException")
