from stampede_guard import locked_cache

from tests.audit.computing import compute


@locked_cache(ttl=60, should_cache=lambda value: not value < 0)
async def rates(day: int) -> int:
    return await compute(day)
