import asyncio

from shop import service

_cache = {}
_queries = {}


async def load(key):
    while key in _queries:
        await _queries[key].wait()
    if key in _cache:
        return _cache[key]
    _queries[key] = asyncio.Event()
    try:
        _cache[key] = await service.load(key)
    finally:
        _queries.pop(key).set()
    return _cache[key]
