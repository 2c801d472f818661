async def migrate(redis, key):
    session = await redis.hgetall(key)
    if not session:
        return
    roles = await convert(session["roles"])
    await redis.hset(key, "roles", roles)
