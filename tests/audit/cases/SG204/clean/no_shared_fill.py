import asyncio

from app import redis_cache, service

_local_cache = {}
lock = asyncio.Lock()


async def of_a_request(request, key):
    if key not in request.state.cache:
        request.state.cache[key] = await service.load(key)
    return request.state.cache[key]


class Repository:
    def __init__(self, session):
        self.session = session
        self._cache = {}

    async def user(self, pk):
        if pk not in self._cache:
            self._cache[pk] = await self.session.get(pk)
        return self._cache[pk]


async def copy_of_the_shared_value(key):
    if key not in _local_cache:
        _local_cache[key] = await redis_cache.get(key)
    return _local_cache[key]
