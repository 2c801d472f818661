from threading import Condition

from cachetools import TTLCache, cached


@cached(TTLCache(10, 60), condition=Condition())
def key(kid): ...
