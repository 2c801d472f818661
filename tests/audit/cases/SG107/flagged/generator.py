from functools import lru_cache

from cachetools import TTLCache, cached


@lru_cache
def rows():
    for row in query():
        yield row


@cached(TTLCache(1, 60))
def names():
    yield from query()
