from cashews import cache
from stampede_guard import locked_cache

from tests.audit.computing import compute

cache.setup("mem://")


@locked_cache(ttl=300)
async def rates(day: int) -> int:
    return await compute(day)
