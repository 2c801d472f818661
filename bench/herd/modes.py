"""The ways to put a cache before the same query: three that teams write, the guard, and the HTTP cache on it.

The hand-written ones are reproduced with their faults; each docstring names what goes wrong.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal

from redis.asyncio import Redis

__all__ = ["HAND_WRITTEN", "MODES", "HandWritten", "Mode", "incident_fix", "local", "naive"]

Mode = Literal["naive", "local", "incident-fix", "guard", "guard-stale", "middleware"]
MODES: Final[tuple[Mode, ...]] = ("naive", "local", "incident-fix", "guard", "guard-stale", "middleware")

Compute = Callable[[], Awaitable[Any]]
HandWritten = Callable[["Redis", str, float, Compute], Awaitable[Any]]

_local_locks: dict[str, asyncio.Lock] = {}  # never shrinks: a fault of the originals too


async def naive(redis: Redis, key: str, ttl: float, compute: Compute) -> Any:
    """Get, compute, set. Every request that arrives while the entry is missing runs the query."""
    cached = await redis.get(key)
    if cached:
        return json.loads(cached)
    value = await compute()
    await redis.set(key, json.dumps(value), px=int(ttl * 1000))
    return value


async def local(redis: Redis, key: str, ttl: float, compute: Compute) -> Any:
    """One asyncio.Lock per worker: every worker still runs the query once. This was the incident."""
    cached = await redis.get(key)
    if cached:
        return json.loads(cached)
    async with _local_locks.setdefault(key, asyncio.Lock()):  # noqa: SG304 as it was deployed
        return await naive(redis, key, ttl, compute)


async def incident_fix(redis: Redis, key: str, ttl: float, compute: Compute) -> Any:
    """A worker's lock, then a lock in Redis: the code that was deployed after the incident.

    Its faults: the losers sleep 100 ms once and then run the query anyway. The unlock deletes any lock that is there.
    An empty value counts as a miss. A crash blocks the key for 30 s.
    """
    cached = await redis.get(key)
    if cached:
        return json.loads(cached)
    async with _local_locks.setdefault(key, asyncio.Lock()):  # noqa: SG304 as it was deployed
        cached = await redis.get(key)
        if cached:
            return json.loads(cached)
        won = await redis.set(f"{key}:lock", "1", nx=True, ex=30)
        if not won:
            await asyncio.sleep(0.1)
            cached = await redis.get(key)
            if cached:
                return json.loads(cached)
        try:
            value = await compute()
            await redis.set(key, json.dumps(value), px=int(ttl * 1000))
            return value
        finally:
            if won:
                await redis.delete(f"{key}:lock")  # noqa: SG302 as it was deployed


HAND_WRITTEN: Final[dict[Mode, HandWritten]] = {"naive": naive, "local": local, "incident-fix": incident_fix}
