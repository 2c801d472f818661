from aiocache import SimpleMemoryCache

from tests.audit.computing import nothing

cache = SimpleMemoryCache()


async def orders(day: int) -> int:
    count = await cache.get(f"orders:{day}")
    if count is None:  # nobody asked yet
        count = await nothing()
        await cache.set(f"orders:{day}", count, ttl=60)
    return count


async def returns(day: int) -> int:
    if (known := await cache.get(f"returns:{day}")) is not None:
        return known
    number = await nothing()
    await cache.set(f"returns:{day}", number, 60)
    return number
