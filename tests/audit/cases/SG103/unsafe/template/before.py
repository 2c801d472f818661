from cashews import cache

from tests.audit.computing import compute

cache.setup("mem://")


@cache(ttl="5m", key="rates:{day}", protected=False)
async def rates(day: int) -> int:
    return await compute(day)
