async def rates(cache, day):
    known = await cache_get(cache, f"rates:{day}")
    if known is None:
        audit = await count_misses(day)
        await cache_set(cache, f"misses:{day}", audit)
    return known
