"""One worker of a server: all shops of `apps`, each under the name of its framework."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

from aiohttp import web

from stampede_guard import StampedeGuard
from tests.chaos.journal import Journal
from tests.integrations.asgi import apps

journal = Journal(Path(os.environ["SHOP_JOURNAL"]))
SECONDS = 0.3
"""Long enough that a burst of requests arrives meanwhile."""


def guard_of(framework: str) -> StampedeGuard:
    """Of its own: the shops have the same URLs."""
    return StampedeGuard.from_url(
        os.environ["SHOP_URL"], namespace=f"{os.environ['SHOP_NAMESPACE']}-{framework}"
    )


def compute_of(framework: str) -> apps.Compute:
    async def compute(what: str, project: int) -> int:
        journal.write(f"{framework}/{what}/{project}", os.getpid(), "started")
        await asyncio.sleep(SECONDS)
        return project

    return compute


SHOPS: dict[str, Any] = {
    "litestar": apps.litestar_app(guard_of("litestar"), compute_of("litestar")),
    "plain": apps.plain_app(guard_of("plain"), compute_of("plain")),
    "quart": apps.quart_app(guard_of("quart"), compute_of("quart")),
    "starlette": apps.starlette_app(guard_of("starlette"), compute_of("starlette")),
}


async def asgi(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        # Each framework's own lifespan is tested alone, in one process.
        return await SHOPS["litestar"](scope, receive, send)
    _, name, path = scope["path"].split("/", 2)
    if name == "who":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        return await send({"type": "http.response.body", "body": str(os.getpid()).encode()})
    await SHOPS[name]({**scope, "path": f"/{path}", "raw_path": f"/{path}".encode()}, receive, send)


async def who(_: web.Request) -> web.Response:
    return web.Response(text=str(os.getpid()))


def aiohttp() -> web.Application:
    app, shop = web.Application(), apps.aiohttp_app(guard_of("aiohttp"), compute_of("aiohttp"))
    app.router.add_get("/who/", who)
    app.add_subapp("/aiohttp", shop)
    return app
