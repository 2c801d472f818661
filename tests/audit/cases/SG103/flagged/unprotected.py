from cashews import cache


@cache(ttl="1m", protected=False)
async def rates(): ...


@cache.hit(ttl="1m", cache_hits=100)
async def prices(): ...


@cache(ttl="1m")
async def names(): ...
