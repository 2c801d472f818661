"""async-hybrid-cache: https://petercinibulk.github.io/async-hybrid-cache/

`@cache.cached(...)` of its quick start, with Redis as the second level. A lock per key joins the callers of one
process. The quick start's `hard_timeout_seconds=5`, also its default, ends a computation of 8 s in all processes. So
it is 30 s here. Its hits come from process memory (L1). So hits through Redis are timed with `lru_max_keys=0`.
"""

from __future__ import annotations

from typing import Any, ClassVar

from redis.asyncio import Redis

from bench.peers.adapter import TTL, About, Compute

__all__ = ["AsyncHybridCache", "AsyncHybridCacheWithoutL1"]

_PAGE = "https://petercinibulk.github.io/async-hybrid-cache/"


class AsyncHybridCache:
    about: ClassVar = About(
        name="async-hybrid-cache",
        distribution="async-hybrid-cache",
        page=_PAGE,
        option="@cache.cached(...), CacheOptions(ttl_seconds=300, hard_timeout_seconds=30), RedisDistributedCache",
        note="joins the callers of one process; hot hits: with lru_max_keys=0, or no hit would reach Redis",
        hits_by="async-hybrid-cache without L1",
        least_python=(3, 12),
    )
    options: ClassVar[dict[str, Any]] = {}

    async def open(self, url: str, compute: Compute) -> None:
        import async_hybrid_cache

        self._client = Redis.from_url(url)
        self._cache = async_hybrid_cache.AsyncHybridCache(
            distributed_cache=async_hybrid_cache.RedisDistributedCache(self._client),
            options=async_hybrid_cache.CacheOptions(ttl_seconds=TTL, hard_timeout_seconds=30, **self.options),
        )
        await self._cache.start()

        @self._cache.cached(lambda key: f"report:{key}")
        async def report(key: str) -> dict[str, Any]:
            return await compute(key)

        self._report = report

    async def call(self, key: str) -> Any:
        return await self._report(key)

    async def close(self) -> None:
        await self._cache.stop()
        await self._client.aclose()


class AsyncHybridCacheWithoutL1(AsyncHybridCache):
    about: ClassVar = About(
        name="async-hybrid-cache without L1",
        distribution="async-hybrid-cache",
        page=_PAGE,
        option="CacheOptions(..., lru_max_keys=0)",
        least_python=(3, 12),
    )
    options: ClassVar[dict[str, Any]] = {"lru_max_keys": 0}
