from django.core.cache import cache


def limited(user):
    key = f"attempts:{user}"
    attempts = cache.get(key, 0)
    if attempts > 5:
        raise TooMany
    cache.set(key, attempts + 1, 60)


def version(domain):
    found = cache.get(f"version:{domain}", 1)
    following = found + 1
    cache.set(f"version:{domain}", following)
    return following


async def views(redis, page):
    views = int(await redis.get(f"views:{page}") or 0) + 1
    await redis.set(f"views:{page}", views)


def added(page):
    views = cache.get(page)
    views += 1
    cache.set(page, views)
