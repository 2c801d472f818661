"""dogpile-breaker: https://github.com/wwarne/dogpile_breaker

`cache_on_arguments` with the README's numbers (`lock_period_sec=2`; pool of 200, socket time-out 0.5 s), on the back
end that its README has for outages: `CircuitBreakerFallbackBackend`, with that section's thresholds. Waiters look
again every `lock_period_sec / 4`, so a longer lock would wake them later.
"""

from __future__ import annotations

import json
from typing import Any, ClassVar
from urllib.parse import urlsplit

from bench.peers.adapter import TTL, About, Compute

__all__ = ["DogpileBreaker"]


class DogpileBreaker:
    about: ClassVar = About(
        name="dogpile-breaker",
        distribution="dogpile-breaker",
        page="https://github.com/wwarne/dogpile_breaker#quick-start",
        option="cache_on_arguments(ttl_sec=300, lock_period_sec=2), CircuitBreakerFallbackBackend",
    )

    async def open(self, url: str, compute: Compute) -> None:
        from dogpile_breaker import CacheRegion, RedisStorageBackend
        from dogpile_breaker.backends.circuit_breaker_fallback_backend import CircuitBreakerFallbackBackend
        from dogpile_breaker.backends.memory_backend import MemoryBackendLRU

        address = urlsplit(url)
        self._region = CacheRegion(
            serializer=lambda value: json.dumps(value).encode(),
            deserializer=json.loads,
            region_name="peers",
            stats_enabled=False,
        )
        redis = RedisStorageBackend(
            host=address.hostname,
            port=address.port,
            db=0,
            max_connections=200,
            timeout=10,
            socket_timeout=0.5,
        )
        await self._region.configure(
            backend_class=CircuitBreakerFallbackBackend,
            backend_arguments={
                "primary_storage": redis,
                "fallback_storage": MemoryBackendLRU(max_size=100, check_interval=None),
                "failure_threshold": 2,
                "cooldown_seconds": 30.0,
                "success_threshold": 1,
            },
        )

        @self._region.cache_on_arguments(
            ttl_sec=TTL, lock_period_sec=2, function_key_generator=lambda function, key: f"report:{key}"
        )
        async def report(key: str) -> dict[str, Any]:
            return await compute(key)

        self._report = report

    async def call(self, key: str) -> Any:
        return await self._report(key)

    async def close(self) -> None:
        await self._region.aclose()
