"""Reports, cached by hand."""

from __future__ import annotations

import json
import os

from fastapi import APIRouter
from redis.asyncio import Redis

from examples.audited_app.work import db

router = APIRouter(prefix="/reports")
redis = Redis.from_url(os.environ.get("REDIS_URL", "redis://localhost:6379/0"))


@router.get("/{project}")
async def report(project: int) -> dict[str, int]:
    key = f"report:{project}"
    cached = await redis.get(key)
    if cached:
        return json.loads(cached)
    data = {"rows": await db.fetch_val("report", project)}
    await redis.set(key, json.dumps(data), ex=300)
    return data


@router.get("/")
async def known() -> list[str]:
    return [key.decode() for key in await redis.keys("report:*")]
