import functools
import json

from fakeredis import FakeAsyncRedis

from tests.audit.computing import asked, compute

redis = FakeAsyncRedis()
seen = {}


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


def raised(function):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        key = f"{function.__name__}:{args}"
        hit = await redis.get(key)
        if hit is not None:
            return json.loads(hit)
        value = await function(*args, **kwargs)
        value = value + 1
        await redis.setex(key, 60, json.dumps(value))
        return value

    return wrapper


def kept(function):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        key = f"{function.__name__}:{args}"
        hit = await redis.get(key)
        if hit is not None:
            return json.loads(hit)
        value = await function(*args, **kwargs)
        seen[key] = value
        await redis.setex(key, 60, json.dumps(value))
        return value

    return wrapper


def given(function):
    @functools.wraps(function)
    async def wrapper(*args, **kwargs):
        key = f"{function.__name__}:{args}"
        hit = await redis.get(key)
        if hit is not None:
            return json.loads(hit)
        value = await function(redis, *args, **kwargs)
        await redis.setex(key, 60, json.dumps(value))
        return value

    return wrapper


@cached
async def rates(day: int) -> int:
    return await compute(day)


@noted
async def prices(day: int) -> int:
    return await compute(day)


@raised
async def costs(day: int) -> int:
    return await compute(day)


@kept
async def sales(day: int) -> int:
    return await compute(day)


@given
async def stock(client: object, day: int) -> int:
    return await compute(day)
