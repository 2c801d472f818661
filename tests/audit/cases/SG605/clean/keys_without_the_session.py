from aiocache import cached
from aiohttp import ClientSession, web
from fastapi import APIRouter, Request
from fastapi_cache.decorator import cache
from sqlalchemy.ext.asyncio import AsyncSession

router = APIRouter()


@cached(ttl=60, key="channels")
async def channels(session: AsyncSession) -> list[str]:
    return await session.scalars(CHANNELS)


@cached(ttl=60, key_builder=lambda function, session, day: f"orders:{day}")
async def orders(session: AsyncSession, day: str) -> list[str]:
    return await session.scalars(ORDERS)


@cached(ttl=60)
async def page(request: web.Request) -> str:
    return await render(request.path)


@cached(ttl=60)
async def rates(session: ClientSession, day: str) -> str:
    return await session.get(day)


@router.get("/sums")
@cache(expire=60)
async def sums(request: Request, day: str) -> int:
    return await sum_of(day)
