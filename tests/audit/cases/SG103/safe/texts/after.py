from datetime import timedelta

from cashews import cache
from stampede_guard import locked_cache

from tests.audit.computing import compute

cache.setup("mem://")
HOUR = timedelta(hours=1)


@locked_cache(ttl=5400)
async def rates(day: int) -> int:
    return await compute(day)


@locked_cache(ttl=300)
async def prices(day: int) -> int:
    return await compute(day)


@locked_cache(ttl=HOUR.total_seconds())
async def names(day: int) -> list[str]:
    return [str(await compute(day))]
