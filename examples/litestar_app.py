"""Litestar: a cached handler, and the guard's errors as answers.

    uvicorn examples.litestar_app:app --workers 8

or, without a server,

    python examples/litestar_app.py

prints, the first time:

    querying project 7
    {'project': 7, 'rows': 1400000}
    {'project': 7, 'rows': 1400000}
"""

from __future__ import annotations

import asyncio
import dataclasses
import os

import httpx
from litestar import Litestar, get
from litestar.params import FromPath

from stampede_guard import StampedeGuard
from stampede_guard.integrations.litestar import StampedePlugin

guard = StampedeGuard.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379/0"), namespace="litestar")


@dataclasses.dataclass
class Quality:
    project: int
    rows: int


@get("/quality/{project:int}")
@guard.locked_cache(ttl=300)
async def quality(project: FromPath[int]) -> Quality:
    print("querying project", project)
    return Quality(project, 1_400_000)


app = Litestar([quality], plugins=[StampedePlugin(guard)], logging_config=None)


async def main() -> None:
    transport = httpx.ASGITransport(app)
    async with app.lifespan(), httpx.AsyncClient(transport=transport, base_url="http://shop") as client:
        for _ in range(2):
            print((await client.get("/quality/7")).json())


if __name__ == "__main__":
    asyncio.run(main())
