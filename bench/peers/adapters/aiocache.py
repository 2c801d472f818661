"""aiocache: https://github.com/aio-libs/aiocache

`cached_stampede` is the decorator its documentation has for this: a RedLock with a `lease` in seconds, whose default
is 2. Callers of other processes wait for the lease to pass, as the lock's documentation says.
"""

from __future__ import annotations

from typing import Any, ClassVar
from urllib.parse import urlsplit

from bench.peers.adapter import TTL, About, Compute

__all__ = ["Aiocache"]


class Aiocache:
    about: ClassVar = About(
        name="aiocache",
        distribution="aiocache",
        page="https://aiocache.aio-libs.org/en/latest/decorators.html",
        option="@cached_stampede(lease=2, ttl=300, cache=Cache.REDIS)",
    )

    async def open(self, url: str, compute: Compute) -> None:
        from aiocache import Cache, cached_stampede

        address = urlsplit(url)

        @cached_stampede(
            lease=2,
            ttl=TTL,
            cache=Cache.REDIS,
            endpoint=address.hostname,
            port=address.port,
            namespace="peers",
            key_builder=lambda function, key: key,
        )
        async def report(key: str) -> dict[str, Any]:
            return await compute(key)

        self._report = report
        self._cache = report.cache

    async def call(self, key: str) -> Any:
        return await self._report(key)

    async def close(self) -> None:
        await self._cache.close()
