"""dogpile.cache: https://dogpilecache.sqlalchemy.org

A library for threads, so each caller is a thread of a pool of fifty. The computation itself stays a coroutine on the
loop. The region is configured as in the Redis backend's documentation (`distributed_lock`, `thread_local_lock` off).
It also has a `lock_timeout`, which that example omits: without one, a killed holder would lock its key for ever.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import Any, ClassVar

from bench.peers.adapter import TTL, About, Compute

__all__ = ["DogpileCache"]

THREADS = 50


class DogpileCache:
    about: ClassVar = About(
        name="dogpile.cache",
        distribution="dogpile.cache",
        page="https://dogpilecache.sqlalchemy.org/en/latest/api.html#redis-backends",
        option="cache_on_arguments(); distributed_lock=True, thread_local_lock=False, lock_timeout=10; 50 threads",
        note="its example sets no lock_timeout; 10 s is longer than any computation here",
    )

    async def open(self, url: str, compute: Compute) -> None:
        from dogpile.cache import make_region

        self._loop = asyncio.get_running_loop()
        self._threads = ThreadPoolExecutor(THREADS)
        region = make_region().configure(
            "dogpile.cache.redis",
            expiration_time=TTL,
            arguments={
                "url": url,
                "redis_expiration_time": 2 * TTL,
                "distributed_lock": True,
                "thread_local_lock": False,
                "lock_timeout": 10,
            },
        )

        @region.cache_on_arguments()  # type: ignore[untyped-decorator,unused-ignore]
        def report(key: str) -> dict[str, Any]:
            return asyncio.run_coroutine_threadsafe(_coroutine(compute, key), self._loop).result()

        self._report = report

    async def call(self, key: str) -> Any:
        return await self._loop.run_in_executor(self._threads, self._report, key)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


async def _coroutine(compute: Compute, key: str) -> dict[str, Any]:
    return await compute(key)
