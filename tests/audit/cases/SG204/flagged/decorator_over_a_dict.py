import functools
from contextlib import suppress


def cached_async(cache, key_of):
    def decorator(function):
        async def wrapper(*args):
            key = key_of(*args)
            with suppress(KeyError):
                return cache[key]
            value = await function(*args)
            cache[key] = value
            return value

        return functools.update_wrapper(wrapper, function)

    return decorator


def remembered(function):
    cache = {}

    @functools.wraps(function)
    async def wrapper(*args):
        try:
            return cache[args]
        except KeyError:
            pass
        cache[args] = await function(*args)
        return cache[args]

    return wrapper
