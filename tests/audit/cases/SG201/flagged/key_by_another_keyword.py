from app.stores import Cache


async def profile(key):
    if found := await Cache.get_by_key(redis_key=key):
        return found
    found = await load_profile(key)
    await Cache.set(redis_key=key, obj=found, ex=60)
    return found
