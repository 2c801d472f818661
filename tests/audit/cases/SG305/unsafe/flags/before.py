from fakeredis import FakeAsyncRedis, FakeRedis

from tests.audit.computing import compute, compute_in_a_thread

aredis = FakeAsyncRedis()
redis = FakeRedis()


async def sync_all() -> None:
    if await aredis.get("sync:running"):
        return
    await aredis.set("sync:running", 1, ex=300)
    await compute("sync")


async def sync_one(name: str) -> bool:
    if await aredis.get(f"lock:{name}") is None:
        # mine
        await aredis.setex(
            f"lock:{name}",
            300,
            "me",
        )
        await compute(name)
        return True
    return False


def report(name: str) -> None:
    """The lock is for five minutes."""
    lock = f"report-lock:{name}"
    if redis.exists(lock):
        raise RuntimeError("it is being made")
    redis.set(
        lock,
        "me",
        300,
    )
    compute_in_a_thread(name)
