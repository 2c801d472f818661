"""The application: `uvicorn examples.audited_app.main:app --workers 8` (it needs `pip install fastapi-cache2`)."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI
from fastapi_cache import FastAPICache
from fastapi_cache.backends.redis import RedisBackend
from redis.asyncio import Redis

from examples.audited_app import catalog, orders, quality, reports
from examples.audited_app.work import db


async def send_summaries() -> None:
    """Once an hour, in every worker."""
    while True:
        await asyncio.sleep(3600)
        await db.fetch_val("summary")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    redis = Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379/0"))
    FastAPICache.init(RedisBackend(redis), prefix="audited")
    summaries = asyncio.create_task(send_summaries())
    yield
    summaries.cancel()
    await redis.aclose()


app = FastAPI(lifespan=lifespan)
for part in (quality, orders, catalog, reports):
    app.include_router(part.router)
