import asyncio
import threading

from django.core.cache import cache

from shop import load, settings

lock = threading.Lock()
metrics = settings.metrics


def not_always(day):
    if settings.CACHED:
        found = cache.get(f"not_always:{day}")
        if found is not None:
            return found
    found = load(day)
    cache.set(f"not_always:{day}", found, 60)
    return found


def if_old(day):
    if day < 7 and (found := cache.get(f"if_old:{day}")) is not None:
        return found
    found = load(day)
    cache.set(f"if_old:{day}", found, 60)
    return found


def counted(day):
    found = cache.get(f"counted:{day}")
    metrics.asked.inc()
    if found is not None:
        return found
    found = load(day)
    cache.set(f"counted:{day}", found, 60)
    return found


async def by_a_task(cache, day):
    found = await cache.get(f"by_a_task:{day}")
    if found is None:
        found = await load(day)
        asyncio.create_task(cache.set(f"by_a_task:{day}", found, 60))
    return found


def given(day):
    found = cache.get(f"given:{day}")
    if found is None:
        found = load(day)
        yield found
        cache.set(f"given:{day}", found, 60)
    yield found


def locked(day):
    found = cache.get(f"locked:{day}")
    if found is None:
        with lock:
            found = load(day)
            cache.set(f"locked:{day}", found, 60)
    return found


def taken_by_elif(day):
    found = cache.get(f"elif:{day}")
    if found is not None:
        return found
    elif day < 7:
        found = load(day)
        cache.set(f"elif:{day}", found, 60)
    return found


def seldom(day):
    found = cache.get(f"seldom:{day}")
    if found is not None:
        return found
    found = load(day)
    if is_over(found):
        cache.set(f"seldom:{day}", found, 60)
    return found


def of_a_request(day, request_cache):
    found = request_cache.get(f"request:{day}")
    if found is None:
        found = load(day)
        if len(found) > 2:
            request_cache.set(f"request:{day}", found, 60)
    return found
