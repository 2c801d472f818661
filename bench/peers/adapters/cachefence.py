"""cachefence: https://github.com/bourne44/cachefence

`get_or_set` with its defaults (lock 10 s, waiters give up after 5 s), on the blocking pool of 30 connections that its
README recommends for bursts.
"""

from __future__ import annotations

from typing import Any, ClassVar

from redis.asyncio import BlockingConnectionPool, Redis

from bench.peers.adapter import TTL, About, Compute

__all__ = ["Cachefence"]


class Cachefence:
    about: ClassVar = About(
        name="cachefence",
        distribution="cachefence",
        page="https://github.com/bourne44/cachefence#usage",
        option="get_or_set(key, ttl=300, recompute=...), BlockingConnectionPool(max_connections=30, timeout=15)",
    )

    async def open(self, url: str, compute: Compute) -> None:
        from cachefence import CacheFence

        self._client = Redis.from_pool(BlockingConnectionPool.from_url(url, max_connections=30, timeout=15))
        self._cache = CacheFence(self._client, namespace="peers:")
        self._compute = compute

    async def call(self, key: str) -> Any:
        return await self._cache.get_or_set(key=key, ttl=TTL, recompute=lambda: self._compute(key))

    async def close(self) -> None:
        await self._client.aclose()
