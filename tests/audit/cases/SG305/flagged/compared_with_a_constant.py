IN_PROGRESS = "working"


async def download(query, redis_cache):
    key = f"download:{query}"
    if await redis_cache.get(key) == IN_PROGRESS:
        return "/wait"
    await redis_cache.set(key, IN_PROGRESS, expiration=600)
    try:
        await begin(query)
    except OSError:
        await redis_cache.delete(key)
        raise
    return "/video"
