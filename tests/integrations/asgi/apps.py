"""One shop, written for each framework: cached handlers, errors of its own, and whole cached responses."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable
from typing import Any

import litestar
import quart
from aiohttp import web
from litestar.middleware import DefineMiddleware
from litestar.params import FromPath
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from stampede_guard import StampedeGuard
from stampede_guard.http.middleware import StampedeMiddleware
from stampede_guard.integrations import aiohttp as for_aiohttp
from stampede_guard.integrations import quart as for_quart
from stampede_guard.integrations.litestar import StampedePlugin

__all__ = ["Compute", "OutOfStock", "aiohttp_app", "litestar_app", "plain_app", "quart_app", "starlette_app"]

Compute = Callable[[str, int], Awaitable[int]]
"""`compute(what, project)`: the expensive part. It may raise."""
MIDDLEWARE = {"Cache-Control": "max-age=60"}


class OutOfStock(Exception):
    """The shop has a handler for it: 409."""

    def __init__(self, article: int) -> None:
        super().__init__(article)
        self.article = article


@dataclasses.dataclass
class Report:
    project: int
    rows: int


def litestar_app(guard: StampedeGuard, compute: Compute, **options: Any) -> litestar.Litestar:
    @litestar.get("/report/{project:int}")
    @guard.locked_cache(ttl=60, name="litestar.report")
    async def report(project: FromPath[int]) -> Report:
        return Report(project, await compute("report", project))

    @litestar.get("/page/{project:int}", response_headers=MIDDLEWARE)
    async def page(project: FromPath[int]) -> dict[str, int]:
        return {"rows": await compute("page", project)}

    def out_of_stock(_: Any, error: OutOfStock) -> litestar.Response[dict[str, int]]:
        return litestar.Response({"article": error.article}, status_code=409)

    return litestar.Litestar(
        [report, page],
        middleware=[DefineMiddleware(StampedeMiddleware, guard=guard)],
        exception_handlers={OutOfStock: out_of_stock},
        plugins=[StampedePlugin(guard)],
        **options,
    )


def quart_app(guard: StampedeGuard, compute: Compute) -> quart.Quart:
    app = quart.Quart(__name__)

    @app.get("/report/<int:project>")
    @guard.locked_cache(ttl=60, name="quart.report")
    async def report(project: int) -> dict[str, int]:
        return {"project": project, "rows": await compute("report", project)}

    @app.get("/page/<int:project>")
    async def page(project: int) -> Any:
        return {"rows": await compute("page", project)}, 200, MIDDLEWARE

    @app.errorhandler(OutOfStock)
    async def out_of_stock(error: OutOfStock) -> Any:
        return {"article": error.article}, 409

    for_quart.install(guard, app)
    app.asgi_app = StampedeMiddleware(app.asgi_app, guard=guard)  # type: ignore[method-assign]
    return app


def aiohttp_app(guard: StampedeGuard, compute: Compute) -> web.Application:
    @guard.locked_cache(ttl=60, name="aiohttp.report")
    async def report(project: int) -> dict[str, int]:
        return {"project": project, "rows": await compute("report", project)}

    async def handler(request: web.Request) -> web.Response:
        return web.json_response(await report(int(request.match_info["project"])))

    @web.middleware
    async def errors(request: web.Request, handler: Any) -> web.StreamResponse:
        try:
            answer: web.StreamResponse = await handler(request)
        except OutOfStock as error:
            return web.json_response({"article": error.article}, status=409)
        return answer

    app = web.Application(middlewares=[errors])
    app.router.add_get("/report/{project}", handler)
    for_aiohttp.install(guard, app)
    return app


def starlette_app(guard: StampedeGuard, compute: Compute, **options: Any) -> Starlette:
    @guard.locked_cache(ttl=60, name="starlette.report")
    async def rows(project: int) -> dict[str, int]:
        return {"project": project, "rows": await compute("report", project)}

    async def report(request: Request) -> JSONResponse:
        return JSONResponse(await rows(request.path_params["project"]))

    async def page(request: Request) -> JSONResponse:
        return JSONResponse(
            {"rows": await compute("page", request.path_params["project"])}, headers=MIDDLEWARE
        )

    async def out_of_stock(_: Request, error: Any) -> JSONResponse:
        return JSONResponse({"article": error.article}, status_code=409)

    app = Starlette(
        routes=[Route("/report/{project:int}", report), Route("/page/{project:int}", page)],
        exception_handlers={OutOfStock: out_of_stock},
        **options,
    )
    guard.install(app)
    app.add_middleware(StampedeMiddleware, guard=guard)
    return app


def plain_app(guard: StampedeGuard, compute: Compute) -> Any:
    """Without a framework: a coroutine function behind the middleware. It knows no errors and no lifespan."""

    @guard.locked_cache(ttl=60, name="plain.report")
    async def rows(project: int) -> dict[str, int]:
        return {"project": project, "rows": await compute("report", project)}

    async def app(scope: Any, receive: Any, send: Any) -> None:
        _, what, project = scope["path"].split("/")
        if what == "report":
            found, fields = await rows(int(project)), {}
        else:
            found, fields = {"rows": await compute("page", int(project))}, MIDDLEWARE
        await JSONResponse(found, headers=fields)(scope, receive, send)

    return StampedeMiddleware(app, guard=guard)
