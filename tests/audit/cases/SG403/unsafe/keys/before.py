from fakeredis import FakeAsyncRedis, FakeRedis

redis = FakeRedis()
aredis = FakeAsyncRedis()


def of_users():
    found = []
    for key in redis.keys("user:*"):  # all of them
        found.append(key)
    return found


def count() -> int:
    return len(redis.keys(pattern="user:*"))


async def async_of_users():
    found = []
    for key in await aredis.keys("user:*"):
        found.append(key)
    return found


async def async_count() -> int:
    return len(await aredis.keys("user:*"))
