"""fastapi-cache2: https://github.com/long2ice/fastapi-cache

`@cache(expire=...)` with `RedisBackend`, as its README starts; it has no option against stampedes. Its extra `redis`
asks for a redis-py below 5, the decorator for nothing that newer ones lack, so it runs on the redis-py of all others.
"""

from __future__ import annotations

from typing import Any, ClassVar

from redis.asyncio import Redis

from bench.peers.adapter import TTL, About, Compute

__all__ = ["FastapiCache2"]


class FastapiCache2:
    about: ClassVar = About(
        name="fastapi-cache2",
        distribution="fastapi-cache2",
        page="https://github.com/long2ice/fastapi-cache#quick-start",
        option="@cache(expire=300), RedisBackend",
        note="has no option against stampedes",
    )

    async def open(self, url: str, compute: Compute) -> None:
        from fastapi_cache import FastAPICache
        from fastapi_cache.backends.redis import RedisBackend
        from fastapi_cache.decorator import cache

        self._client = Redis.from_url(url)
        FastAPICache.init(RedisBackend(self._client), prefix="peers")

        @cache(expire=TTL)
        async def report(key: str) -> dict[str, Any]:
            return await compute(key)

        self._report = report

    async def call(self, key: str) -> Any:
        return await self._report(key)

    async def close(self) -> None:
        await self._client.aclose()
