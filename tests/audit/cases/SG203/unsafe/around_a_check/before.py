import functools
import json

from fakeredis import FakeAsyncRedis

from tests.audit.computing import asked, compute

redis = FakeAsyncRedis()


def cached(function):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        user = asked(*args)
        key = f"{function.__name__}:{args}"
        hit = await redis.get(key)
        if hit is not None:
            return json.loads(hit)
        value = await function(*args, **kwargs)
        await redis.setex(key, 60, json.dumps(value))
        return value

    return wrapper


def noted(function):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        key = f"{function.__name__}:{args}"
        hit = await redis.get(key)
        if hit is not None:
            return json.loads(hit)
        value = await function(*args, **kwargs)
        asked(value)
        await redis.setex(key, 60, json.dumps(value))
        return value

    return wrapper


@cached
async def rates(day: int) -> int:
    return await compute(day)


@noted
async def prices(day: int) -> int:
    return await compute(day)
