from cachetools import LRUCache

_cache = LRUCache(100)


async def user(pk, session):
    known = _cache.get(pk)
    if known is None:
        known = await session.scalar(pk)
        _cache.set(pk, known)
    return known
