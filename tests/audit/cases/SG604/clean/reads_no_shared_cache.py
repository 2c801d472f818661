import os
from functools import lru_cache

import redis


@lru_cache
def client():
    return redis.Redis(host=os.environ.get("REDIS_HOST"), port=settings.cache.get("port"))
