import functools
from app import lock_for, redis


def cached(function):
    @functools.wraps(function)
    async def wrapper(key):
        async with lock_for(key):
            hit = await redis.get(key)
            if hit is None:
                hit = await function(key)
                await redis.set(key, hit, ex=60)
            return hit

    return wrapper
