"""Quart: a cached handler, whole cached responses, and the guard's errors as answers.

    hypercorn examples.quart_app:app --workers 8

or, without a server,

    python examples/quart_app.py

prints, the first time:

    querying project 7
    {'project': 7, 'rows': 1400000}
    {'project': 7, 'rows': 1400000}
    writing the page
    stampede_guard; fwd=uri-miss; fwd-status=200; stored
    stampede_guard; hit
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from quart import Quart

from stampede_guard import StampedeGuard, StampedeMiddleware
from stampede_guard.integrations.quart import install

guard = StampedeGuard.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379/0"), namespace="quart")
app = Quart(__name__)


@app.get("/quality/<int:project>")
@guard.locked_cache(ttl=300)
async def quality(project: int) -> dict[str, int]:
    print("querying project", project)
    return {"project": project, "rows": 1_400_000}


@app.get("/page")
async def page() -> Any:
    print("writing the page")
    return "<h1>Quality</h1>", {"Cache-Control": "max-age=60"}


install(guard, app)
app.asgi_app = StampedeMiddleware(app.asgi_app, guard=guard)  # type: ignore[method-assign]


async def main() -> None:
    async with app.test_app() as running:
        client = running.test_client()
        for _ in range(2):
            print(await (await client.get("/quality/7")).get_json())
        for _ in range(2):
            print((await client.get("/page")).headers["Cache-Status"].partition("; ttl")[0])


if __name__ == "__main__":
    asyncio.run(main())
