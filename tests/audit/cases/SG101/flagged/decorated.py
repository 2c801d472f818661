from fastapi_cache.decorator import cache


@cache(expire=60)
async def rates(): ...
