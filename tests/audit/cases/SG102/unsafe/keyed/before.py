from aiocache import cached

from tests.audit.computing import compute


@cached(ttl=60, key="rates", skip_cache_func=lambda value: value < 0)
async def rates(day: int) -> int:
    return await compute(day)
