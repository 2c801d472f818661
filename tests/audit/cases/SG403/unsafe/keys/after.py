from fakeredis import FakeAsyncRedis, FakeRedis

redis = FakeRedis()
aredis = FakeAsyncRedis()


def of_users():
    found = []
    for key in redis.scan_iter("user:*"):  # all of them
        found.append(key)
    return found


def count() -> int:
    return len(list(redis.scan_iter(match="user:*")))


async def async_of_users():
    found = []
    async for key in aredis.scan_iter("user:*"):
        found.append(key)
    return found


async def async_count() -> int:
    return len([key async for key in aredis.scan_iter("user:*")])
