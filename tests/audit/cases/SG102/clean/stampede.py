from aiocache import cached_stampede


@cached_stampede(lease=2, ttl=10)
async def rates(): ...
