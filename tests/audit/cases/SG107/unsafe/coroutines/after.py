from functools import lru_cache

from stampede_guard import locked_cache
from tests.audit.computing import compute


@locked_cache(ttl=300)
async def settings(tenant: str) -> dict[str, int]:
    return {tenant: await compute(tenant)}


@locked_cache(ttl=300)
async def limits() -> int:
    return await compute()


@lru_cache
def plain(number: int) -> int:
    return number
