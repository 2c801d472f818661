from fastapi import APIRouter
from fastapi_cache import FastAPICache
from fastapi_cache.decorator import cache
from sqlalchemy.ext.asyncio import AsyncSession

router = APIRouter()


def start(backend):
    FastAPICache.init(backend, prefix="app", key_builder=without_sessions)


@router.get("/sums")
@cache(expire=60)
async def sums(session: AsyncSession, day: str) -> int:
    return await session.scalar(SUM)
