import redis.asyncio as redis

client = redis.Redis()


async def rates():
    return await client.get("rates")
