from django.core.cache import cache
from redis import Redis

redis = Redis()


def first():
    if redis.get("sync-lock"):
        return
    log("begins")
    redis.set("sync-lock", 1, ex=300)
    work()


def second():
    if redis.get("sync-lock"):
        return
    redis.set("sync-lock", 1)
    work()


def third():
    if redis.get("sync-lock") == b"1":
        return
    redis.set("sync-lock", 1, ex=300)
    work()


def fourth():
    if not redis.get("sync-lock"):
        redis.set("sync-lock", 1, ex=300)
        work()
    else:
        wait()


def fifth():
    if cache.get("sync-lock"):
        return
    cache.set("sync-lock", 1, 300)
    work()


def sixth():
    if redis.get("sync-lock"):
        log("runs already")
    redis.set("sync-lock", 1, ex=300)
    work()


def seventh():
    if redis.get("sync-lock"):
        return
    redis.set("sync-lock", 1, ex=300, keepttl=False)
    work()


def eighth(job):
    if redis.get(f"job-lock:{job.name}"):
        return
    redis.set(f"job-lock:{job.id}", 1, ex=300)
    work()


async def ninth(aredis):
    if await aredis.get("sync-lock"):
        return
    aredis.set("sync-lock", 1, ex=300)
    work()


async def tenth():
    if redis.get("sync-lock"):
        return
    await redis.set("sync-lock", 1, ex=300)
    work()


def eleventh(on):
    if on and redis.get("sync-lock"):
        return
    redis.set("sync-lock", 1, ex=300)
    work()
