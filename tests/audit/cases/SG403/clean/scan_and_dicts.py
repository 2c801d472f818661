async def forget(redis, names):
    async for key in redis.scan_iter("user:*"):
        await redis.delete(key)
    return list(names.keys())
