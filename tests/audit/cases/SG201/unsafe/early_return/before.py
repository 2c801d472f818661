"""Reports."""

import json

from fakeredis import FakeAsyncRedis

from tests.audit.computing import compute

redis = FakeAsyncRedis()
TTL = 300


async def report(project: int, detailed: bool = False) -> dict[str, int]:
    """One project's report.

    Cached.
    """
    key = f"report:{project}:{detailed}"
    # somebody may have it already
    cached = await redis.get(key)
    if cached is not None:
        return json.loads(cached)

    # the expensive part
    rows = await compute(project)
    data = {"good": rows}  # of all
    await redis.set(key, json.dumps(data), ex=TTL)
    return data
