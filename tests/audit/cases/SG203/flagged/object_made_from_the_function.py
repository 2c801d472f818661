from functools import wraps

from app import redis
from checks import Validated


def cached(function):
    validated = Validated(function)

    @wraps(function)
    async def wrapper(*args):
        key = f"{function.__name__}:{args}"
        found = await redis.get(key)
        if found is None:
            found = await validated.call(*args)
            await redis.set(key, found, ex=60)
        return found

    return wrapper
