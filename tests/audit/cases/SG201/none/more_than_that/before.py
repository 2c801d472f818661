import json

from fakeredis import FakeAsyncRedis

from tests.audit.computing import compute

redis = FakeAsyncRedis()
other_redis = FakeAsyncRedis()


async def counted(day: int) -> int:
    cached = await redis.get(f"orders:{day}")
    if cached is not None:
        print("a hit")
        return int(cached)
    value = await compute()
    await redis.setex(f"orders:{day}", 60, value)
    return value


async def guarded(day: int) -> int:
    try:
        cached = await redis.get(f"orders:{day}")
    except ConnectionError:
        cached = None
    if cached is not None:
        return int(cached)
    value = await compute()
    await redis.setex(f"orders:{day}", 60, value)
    return value


async def forgotten(day: int) -> str:
    cached = await other_redis.get(f"day:{day}")
    if cached is not None:
        return json.loads(cached)
    value = str(await compute())
    await other_redis.setex(f"day:{day}", 60, json.dumps(value))
    return value


async def forget(day: int) -> None:
    await other_redis.delete(f"day:{day}")


async def whatever(key: str, function, seconds: int) -> int:
    cached = await redis.get(f"any:{key}")
    if cached is not None:
        return int(cached)
    value = await function()
    await redis.setex(f"any:{key}", seconds, value)
    return value


async def as_long_as_told(day: int, seconds: int) -> int:
    cached = await redis.get(f"told:{day}")
    if cached is not None:
        return int(cached)
    value = await compute(day)
    await redis.set(f"told:{day}", value, ex=seconds)
    return value


async def of_a_key(key: str) -> int:
    cached = await redis.get(key)
    if cached is not None:
        return int(cached)
    value = await compute()
    await redis.setex(key, 60, value)
    return value
