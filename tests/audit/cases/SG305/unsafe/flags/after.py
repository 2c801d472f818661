from fakeredis import FakeAsyncRedis, FakeRedis

from tests.audit.computing import compute, compute_in_a_thread

aredis = FakeAsyncRedis()
redis = FakeRedis()


async def sync_all() -> None:
    if not await aredis.set("sync:running", 1, ex=300, nx=True):
        return
    await compute("sync")


async def sync_one(name: str) -> bool:
    if await aredis.set(f"lock:{name}", "me", nx=True, ex=300):
        # mine
        await compute(name)
        return True
    return False


def report(name: str) -> None:
    """The lock is for five minutes."""
    lock = f"report-lock:{name}"
    if not redis.set(
        lock,
        "me",
        300,
        nx=True,
    ):
        raise RuntimeError("it is being made")
    compute_in_a_thread(name)
