import asyncio
from app import cache


async def price(item):
    lock = asyncio.Lock()
    async with lock:
        value = await cache.get(item)
        if value is None:
            value = await ask(item)
            await cache.set(item, value)
        return value
