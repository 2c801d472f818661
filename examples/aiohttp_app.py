"""aiohttp.web: the cached function stands between the request and the response.

    python -m aiohttp.web -H localhost -P 8080 examples.aiohttp_app:make_app

or, without a server,

    python examples/aiohttp_app.py

prints, the first time:

    querying project 7
    {'project': 7, 'rows': 1400000}
    {'project': 7, 'rows': 1400000}
"""

from __future__ import annotations

import asyncio
import os

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from stampede_guard import StampedeGuard
from stampede_guard.integrations.aiohttp import install

guard = StampedeGuard.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379/0"), namespace="aiohttp")


@guard.locked_cache(ttl=300)
async def quality(project: int) -> dict[str, int]:
    print("querying project", project)
    return {"project": project, "rows": 1_400_000}


async def handler(request: web.Request) -> web.Response:
    return web.json_response(await quality(int(request.match_info["project"])))


def make_app(argv: list[str] | None = None) -> web.Application:
    app = web.Application()
    app.router.add_get("/quality/{project}", handler)
    install(guard, app)
    return app


async def main() -> None:
    async with TestClient(TestServer(make_app())) as client:
        for _ in range(2):
            print(await (await client.get("/quality/7")).json())


if __name__ == "__main__":
    asyncio.run(main())
