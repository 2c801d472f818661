"""dialcache: https://github.com/lan17/DialCache/tree/main/python

The section "Redis and tracked invalidation" of its README: `RedisAdapter` on a client with its time-outs, and a policy
with the layer `remote`. It caches only within `enable()`, so each call is a request of its own. `coalesce`, its remedy
for a stampede, is on by default; it joins the callers of one process. Its extra `redis` asks for a redis-py below 7.
The adapter needs nothing that newer ones lack, so it runs on the redis-py of all others.
"""

from __future__ import annotations

from typing import Any, ClassVar

from redis.asyncio import Redis

from bench.peers.adapter import TTL, About, Compute

__all__ = ["Dialcache"]


class Dialcache:
    about: ClassVar = About(
        name="dialcache",
        distribution="dialcache",
        page="https://github.com/lan17/DialCache/tree/main/python#redis-and-tracked-invalidation",
        option='@cache.cached(..., default_config=Policy(ttl_sec={"remote": 300})), cache.enable()',
        note="joins the callers of one process; has no lock between processes",
    )

    async def open(self, url: str, compute: Compute) -> None:
        from dialcache import DialCache, Policy
        from dialcache.redis import RedisAdapter

        self._client = Redis.from_url(
            url, decode_responses=False, socket_connect_timeout=0.5, socket_timeout=0.5
        )
        self._cache = DialCache(redis=RedisAdapter(self._client))

        @self._cache.cached(
            use_case="report",
            key_type="report",
            cache_key=lambda key: key,
            track_for_invalidation=True,
            default_config=Policy(ttl_sec={"remote": TTL}),
        )
        async def report(key: str) -> dict[str, Any]:
            return await compute(key)

        self._report = report

    async def call(self, key: str) -> Any:
        async with self._cache.enable():
            return await self._report(key)

    async def close(self) -> None:
        await self._client.aclose()
