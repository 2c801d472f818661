async def forget(redis):
    for key in await redis.keys("user:*"):
        await redis.delete(key)
