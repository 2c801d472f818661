async def slots(cache, cafe):
    known = await cache_get_list(cache, f"slots:{cafe}", Slot)
    if known is not None:
        return known
    rows = await load_slots(cafe)
    await cache_set(cache, f"slots:{cafe}", rows, 60)
    return rows
