import functools
import json

from fakeredis import FakeAsyncRedis

from tests.audit.computing import compute

redis = FakeAsyncRedis()


def cached(expire: int):
    """Caches what a coroutine function returns."""

    def decorate(function):
        # nobody waits for anybody
        @functools.wraps(function)
        async def wrapper(*args, **kwargs):
            key = f"{function.__name__}:{args}:{kwargs}"
            hit = await redis.get(key)
            if hit is not None:
                return json.loads(hit)
            value = await function(*args, **kwargs)
            await redis.set(key, json.dumps(value), ex=expire)
            return value

        return wrapper

    return decorate


@cached(60)
async def rates(day: int) -> int:
    return await compute(day)
