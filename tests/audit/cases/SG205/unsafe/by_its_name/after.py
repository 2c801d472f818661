from tests.audit.computing import nothing


async def orders(cache, day: int) -> int:
    count = await cache.get(f"orders:{day}")
    if count is not None:
        return count
    count = await nothing()
    await cache.set(f"orders:{day}", count, 60)
    return count
