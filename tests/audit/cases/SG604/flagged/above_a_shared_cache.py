from functools import lru_cache

from django.core.cache import cache

from app import redis


@lru_cache
def setting(name):
    return redis.hget("settings", name)


@lru_cache(maxsize=100)
def banner(page):
    return cache.get(f"banner:{page}")
