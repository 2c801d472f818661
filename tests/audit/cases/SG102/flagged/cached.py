from aiocache import cached


@cached(ttl=10)
async def rates(): ...
