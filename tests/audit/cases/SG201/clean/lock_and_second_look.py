import asyncio
from app import cache

locks = {}


async def price(item):
    value = await cache.get(item)
    if value is not None:
        return value
    async with locks.setdefault(item, asyncio.Lock()):
        value = await cache.get(item)
        if value is None:
            value = await ask(item)
            await cache.set(item, value)
        return value
