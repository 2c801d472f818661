import functools
import json

from fakeredis import FakeAsyncRedis
from stampede_guard import fill_lock

from tests.audit.computing import compute

redis = FakeAsyncRedis()


def cached(expire: int, prefix: str):
    def decorate(function):
        @functools.wraps(function)
        async def wrapper(*args, **kwargs):
            key = f"{prefix}:{args}"
            hit = await redis.get(key)
            if hit is not None:
                return json.loads(hit)
            async with fill_lock("cached.decorate.wrapper", key):
                hit = await redis.get(key)
                if hit is not None:
                    return json.loads(hit)
                value = await function(*args, **kwargs)
                await redis.setex(key, expire, json.dumps(value))
            return value

        return wrapper

    return decorate


@cached(60, "rates")
async def rates(day: int) -> int:
    return await compute(day)
