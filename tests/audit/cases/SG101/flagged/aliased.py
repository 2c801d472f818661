import fastapi_cache.decorator as fc


@fc.cache()
async def rates(): ...
