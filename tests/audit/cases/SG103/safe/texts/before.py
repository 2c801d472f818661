from datetime import timedelta

from cashews import cache

from tests.audit.computing import compute

cache.setup("mem://")
HOUR = timedelta(hours=1)


@cache(ttl="1h30m", protected=False)
async def rates(day: int) -> int:
    return await compute(day)


@cache(timedelta(minutes=5), protected=False)
async def prices(day: int) -> int:
    return await compute(day)


@cache(ttl=HOUR, protected=False)
async def names(day: int) -> list[str]:
    return [str(await compute(day))]
