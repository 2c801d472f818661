import asyncio
from app import cache

lock = asyncio.Lock()


async def price(item):
    value = await cache.get(item)
    if value is None:
        async with lock:
            value = await ask(item)
            await cache.set(item, value)
    return value
