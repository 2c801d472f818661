"""Starlette: cache what lies between the Request and the Response, and say which part of the request decides.

    uvicorn examples.starlette_app:app --workers 8

or, without a server,

    python examples/starlette_app.py

prints, the first time:

    querying project 7
    {'project': '7'}
    {'project': '7'}
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from stampede_guard import StampedeGuard

guard = StampedeGuard.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379/0"), namespace="starlette")


@guard.locked_cache(ttl=300, key=lambda request: request.path_params["project"])
async def quality(request: Request) -> dict[str, str]:
    print("querying project", request.path_params["project"])
    return {"project": request.path_params["project"]}


async def endpoint(request: Request) -> JSONResponse:
    return JSONResponse(await quality(request))


@contextlib.asynccontextmanager
async def lifespan(_: Starlette) -> AsyncIterator[None]:
    yield  # open and close your database around this


app = Starlette(routes=[Route("/quality/{project}", endpoint)], lifespan=lifespan)
guard.install(app)


async def main() -> None:
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport) as client:
        for _ in range(2):
            print((await client.get("http://shop/quality/7")).json())


if __name__ == "__main__":
    asyncio.run(main())
