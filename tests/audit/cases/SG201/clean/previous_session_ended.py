async def open_session(redis_cache, key, token):
    previous = await redis_cache.get_json(key)
    if isinstance(previous, dict):
        await forbid(previous["token"])
    payload = describe(token)
    await redis_cache.set_json(key, payload, 3600)
