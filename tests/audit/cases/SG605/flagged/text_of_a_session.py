from aiocache import cached
from fastapi import APIRouter, Depends, Request
from fastapi_cache.decorator import cache
from sqlalchemy.ext.asyncio import AsyncSession

from app.database import DbSession, get_db

router = APIRouter()


@cached(ttl=60)
async def channels(session: DbSession) -> list[str]:
    return await session.scalars(CHANNELS)


@cached(ttl=60)
async def visitors(request: Request, day: str) -> int:
    return await count(request.app, day)


@router.get("/orders")
@cache(expire=60)
async def orders(day: str, session: AsyncSession = Depends(get_db)) -> list[str]:
    return await session.scalars(ORDERS)


@router.get("/sums")
@cache(expire=60)
async def sums(day: str, db=Depends(get_db)) -> int:
    return await db.scalar(SUM)
