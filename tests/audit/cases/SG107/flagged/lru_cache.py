from functools import lru_cache


@lru_cache(maxsize=None)
async def settings(): ...
