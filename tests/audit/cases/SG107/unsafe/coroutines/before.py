import functools
from functools import lru_cache

from tests.audit.computing import compute


@lru_cache(maxsize=None)
async def settings(tenant: str) -> dict[str, int]:
    return {tenant: await compute(tenant)}


@functools.cache
async def limits() -> int:
    return await compute()


@lru_cache
def plain(number: int) -> int:
    return number
