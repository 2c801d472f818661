import threading

import redis_lock
from django.core.cache import cache
from redis import Redis

from app.locks import redis_service

redis = Redis()


class Store:
    def __init__(self, redis):
        self.redis = RedisStore(redis)
        self.guard = threading.Lock()

    def lock(self, name):
        return self.redis.lock(name)


class RedisStore:
    def __init__(self, redis):
        self.client = redis

    def lock(self, name, timeout=30):
        return self.client.lock(name, timeout=timeout)


def rebuild(options, waiting):
    with redis.lock("rebuild", 60):
        work()
    with redis.lock("rebuild", timeout=60):
        work()
    with redis.lock("rebuild", **options):
        work()
    with cache.lock("rebuild", timeout=waiting):
        work()
    with redis_lock.Lock(redis, "rebuild", expire=60, auto_renewal=True):
        work()
    with redis_service.lock("rebuild"):
        work()
