from fakeredis import FakeAsyncRedis

redis = FakeAsyncRedis()


async def sync():
    if await redis.get("sync:running"):
        return
    await redis.set("sync:running", 1, ex=300)  # five minutes
    await work()
