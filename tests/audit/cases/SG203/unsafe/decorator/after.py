from fakeredis import FakeAsyncRedis
from stampede_guard import locked_cache

from tests.audit.computing import compute

redis = FakeAsyncRedis()


def cached(expire: int):
    """Caches what a coroutine function returns."""

    def decorate(function):
        # nobody waits for anybody

        return locked_cache(ttl=expire)(function)

    return decorate


@cached(60)
async def rates(day: int) -> int:
    return await compute(day)
