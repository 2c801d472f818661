from fakeredis import FakeAsyncRedis, FakeRedis

aredis = FakeAsyncRedis()
redis = FakeRedis()


async def nightly(work):
    if await aredis.set("nightly-lock", "1", nx=True, ex=30):
        try:
            await work()
        finally:
            await aredis.delete("nightly-lock")


def hourly(work):
    lock = "hourly-lock"
    taken = redis.set(
        lock,
        "me",  # whoever that is
        nx=True,
        ex=30,
    )
    if not taken:
        return
    try:
        work()
    finally:
        # the next one
        redis.delete(lock)
