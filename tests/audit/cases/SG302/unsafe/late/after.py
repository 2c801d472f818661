import secrets

from fakeredis import FakeAsyncRedis, FakeRedis

aredis = FakeAsyncRedis()
redis = FakeRedis()


async def nightly(work):
    if await aredis.set("nightly-lock", (token := secrets.token_hex(16)), nx=True, ex=30):
        try:
            await work()
        finally:
            await aredis.eval(
                "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
                1,
                "nightly-lock",
                token,
            )


def hourly(work):
    lock = "hourly-lock"
    taken = redis.set(
        lock,
        (token := secrets.token_hex(16)),  # whoever that is
        nx=True,
        ex=30,
    )
    if not taken:
        return
    try:
        work()
    finally:
        # the next one
        redis.eval(
            "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
            1,
            lock,
            token,
        )
