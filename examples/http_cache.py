"""A FastAPI app behind the HTTP cache: routes that say nothing, an endpoint that says it itself, and a herd.

    python examples/http_cache.py

prints, the first time:
20 requests at once: 1 call, 19 collapsed
again: hit
with its ETag: 304
prices, from the endpoint's own Cache-Control: hit
after a PUT: 2 calls
with credentials, past the route: 3 calls
"""

from __future__ import annotations

import asyncio
import os

import httpx
from fastapi import Depends, FastAPI

from stampede_guard import CacheRoute, StampedeGuard, StampedeMiddleware, cache_control

guard = StampedeGuard.from_url(os.environ.get("REDIS_URL", "memory://"), namespace="http-example")
app = FastAPI()
app.add_middleware(
    StampedeMiddleware, guard=guard, routes=[CacheRoute("/reports/*", ttl=60, stale_ttl=600)], add_etag=True
)
calls = {"report": 0, "prices": 0}


@app.get("/reports/{number}")
async def report(number: int) -> dict[str, int]:
    calls["report"] += 1
    await asyncio.sleep(0.1)  # a slow query
    return {"number": number}


@app.put("/reports/{number}")
async def change(number: int) -> dict[str, int]:
    return {"number": number}


@app.get("/prices", dependencies=[Depends(cache_control(max_age=60, stale_while_revalidate=600))])
async def prices() -> list[int]:
    calls["prices"] += 1
    return [1, 2, 3]


async def main() -> None:
    transport = httpx.ASGITransport(app)
    async with guard, httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        herd = await asyncio.gather(*(client.get("/reports/7") for _ in range(20)))
        collapsed = sum("collapsed" in answer.headers["cache-status"] for answer in herd)
        print(f"20 requests at once: {calls['report']} call, {collapsed} collapsed")
        again = await client.get("/reports/7")
        print(f"again: {again.headers['cache-status'].split('; ')[1]}")
        same = await client.get("/reports/7", headers={"if-none-match": again.headers["etag"]})
        print(f"with its ETag: {same.status_code}")
        await client.get("/prices")
        answer = await client.get("/prices")
        print(
            f"prices, from the endpoint's own Cache-Control: {answer.headers['cache-status'].split('; ')[1]}"
        )
        await client.put("/reports/7")
        await client.get("/reports/7")
        print(f"after a PUT: {calls['report']} calls")
        await client.get("/reports/7", headers={"authorization": "Bearer abc"})
        print(f"with credentials, past the route: {calls['report']} calls")


if __name__ == "__main__":
    asyncio.run(main())
