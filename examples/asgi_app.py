"""ASGI without a framework: a cached function, whole cached responses, and the guard closed with the application.

    uvicorn examples.asgi_app:app --workers 8

or, without a server,

    python examples/asgi_app.py

prints, the first time:

    querying project 7
    {"project": 7}
    {"project": 7}
    writing the page
    stampede_guard; fwd=uri-miss; fwd-status=200; stored
    stampede_guard; hit
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import httpx

from stampede_guard import StampedeGuard, StampedeMiddleware

guard = StampedeGuard.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379/0"), namespace="asgi")


@guard.locked_cache(ttl=300)
async def quality(project: int) -> dict[str, int]:
    print("querying project", project)
    return {"project": project}


async def lifespan(receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await guard.aclose()  # before the database that computations use
    await send({"type": "lifespan.shutdown.complete"})


async def shop(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    headers = [(b"content-type", b"application/json")]
    if scope["path"] == "/page":
        print("writing the page")
        body, headers = b'"Quality"', [*headers, (b"cache-control", b"max-age=60")]
    else:
        body = json.dumps(await quality(int(scope["path"].rpartition("/")[2]))).encode()
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})


app = StampedeMiddleware(shop, guard=guard)


async def main() -> None:
    transport = httpx.ASGITransport(app)
    async with guard, httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        for _ in range(2):
            print((await client.get("/quality/7")).text)
        for _ in range(2):
            print((await client.get("/page")).headers["Cache-Status"].partition("; ttl")[0])


if __name__ == "__main__":
    asyncio.run(main())
