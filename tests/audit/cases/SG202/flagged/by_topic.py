async def user(id):
    found = await get_cached_user(id)
    if found is None:
        found = await load_user(id)
        await cache_user(id, found)
    return found
