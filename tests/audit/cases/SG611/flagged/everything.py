import redis
from django.core.cache import cache, caches
from fastapi import FastAPI

client = redis.Redis()


def clear_cache():
    try:
        client.flushdb()
    except redis.RedisError:
        pass


async def forget(request):
    await request.app.state.redis.execute_command("FLUSHALL")


def refresh_prices():
    update_prices()
    cache.clear()


def refresh_pages():
    caches["pages"].clear()
