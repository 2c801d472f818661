from cashews import cache


@cache(ttl="1m", lock=True)
async def rates(): ...
