from app import redis


async def price(item):
    value = await redis.get(item)
    if value is not None:
        return value
    acquired = await redis.set(f"lock:{item}", "1", nx=True, ex=10)
    if acquired:
        value = await ask(item)
        await redis.set(item, value, ex=60)
        return value
    return await wait_for(item)
