import asyncio
import json


def locking_cache(function):
    async def wrapper(*args):
        key = json.dumps(args)
        task = wrapper.cache.get(key)
        if task is None:
            _cache_miss(key)
            wrapper.cache[key] = asyncio.create_task(function(*args))
        else:
            _cache_hit(key)
        return await wrapper.cache[key]

    def _cache_hit(key):
        wrapper.hits += 1

    def _cache_miss(key):
        wrapper.misses += 1

    return wrapper
