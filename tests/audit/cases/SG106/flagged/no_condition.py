from threading import Lock

from cachetools import TTLCache, cached


@cached(cache=TTLCache(10, 60))
def key(kid): ...


@cached(TTLCache(10, 60), lock=Lock())
def other(kid): ...
