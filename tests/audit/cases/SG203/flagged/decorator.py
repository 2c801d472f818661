import functools
import json
from app import redis


def cached(ttl):
    def decorate(function):
        @functools.wraps(function)
        async def wrapper(*args, **kwargs):
            key = f"{function.__name__}:{args}"
            hit = await redis.get(key)
            if hit is not None:
                return json.loads(hit)
            value = await function(*args, **kwargs)
            await redis.setex(key, ttl, json.dumps(value))
            return value

        return wrapper

    return decorate


@cached(60)
async def rates(): ...
