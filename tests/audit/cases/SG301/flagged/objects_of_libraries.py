import redis_lock
from django.core.cache import cache
from redis.asyncio import Redis

from app.stores import redis_client

redis = Redis()


async def rebuild():
    async with redis.lock("rebuild"):
        await work()


async def wait_a_little():
    async with redis.lock("rebuild", blocking_timeout=5):
        await work()


def by_position(seconds):
    with cache.lock("rebuild", seconds):
        work()


def never():
    with cache.lock("rebuild", timeout=None):
        work()


def of_a_class():
    with redis_lock.Lock(redis, "rebuild"):
        work()


def of_another_file():
    with redis_client.lock("rebuild"):
        work()
