from aiocache import SimpleMemoryCache, cached, multi_cached

from tests.audit.computing import compute

cache = SimpleMemoryCache()


@cached(cache, key_builder=lambda function: "rates")
async def rates() -> int:
    return await compute()


@multi_cached("days", ttl=60)
async def several(days: list[int]) -> dict[int, int]:
    return {day: await compute(day) for day in days}


class Rates:
    @cached(ttl=60)
    async def latest(self) -> int:
        return await compute()
