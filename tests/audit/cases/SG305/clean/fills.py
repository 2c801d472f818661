async def page(redis, number):
    key = f"page-{number}"
    value = await redis.get(key)
    if value is None:
        value = await load(number)
        await redis.setex(key, 60, value)
        await tell(number)
    return value
