"""Reports."""

from fakeredis import FakeAsyncRedis
from stampede_guard import locked_cache

from tests.audit.computing import compute

redis = FakeAsyncRedis()
TTL = 300


@locked_cache(ttl=TTL)
async def report(project: int, detailed: bool = False) -> dict[str, int]:
    """One project's report.

    Cached.
    """
    # somebody may have it already

    # the expensive part
    rows = await compute(project)
    data = {"good": rows}  # of all
    return data
