import asyncio

flights = {}


def cached(function):
    async def wrapper(key):
        known = await cache.get(key)
        if known is not None:
            return known
        if key not in flights:
            flights[key] = asyncio.create_task(function(key))
        value = await join_inflight(flights[key])
        await cache.set(key, value)
        return value

    return wrapper
