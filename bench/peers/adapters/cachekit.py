"""cachekit: https://github.com/cachekit-io/cachekit-py

`@cache(ttl=...)` on an async function with `REDIS_URL` set, as "Distributed Locking" in its documentation shows. It
joins the misses of one process, then takes a lock in Redis (30 s; a waiter gives up after 5 s). Both are on by default.
Its hits come from process memory (L1). So hits through Redis are timed with `l1_enabled=False`, and its L1 among the
hits in memory.
"""

from __future__ import annotations

import os
from typing import Any, ClassVar

from bench.peers.adapter import TTL, About, Compute

__all__ = ["Cachekit", "CachekitWithoutL1"]

_PAGE = "https://github.com/cachekit-io/cachekit-py/blob/main/docs/features/distributed-locking.md"


class Cachekit:
    about: ClassVar = About(
        name="cachekit",
        distribution="cachekit",
        page=_PAGE,
        option="@cache(ttl=300), REDIS_URL",
        hits_by="cachekit without L1",
        note="hot hits: with l1_enabled=False, or no hit would reach Redis",
    )
    options: ClassVar[dict[str, Any]] = {}

    async def open(self, url: str, compute: Compute) -> None:
        os.environ["REDIS_URL"] = url  # read when the first call builds the back end
        from cachekit import cache

        @cache(ttl=TTL, namespace="peers", **self.options)
        async def report(key: str) -> dict[str, Any]:
            return await compute(key)

        self._report = report

    async def call(self, key: str) -> Any:
        return await self._report(key)

    async def close(self) -> None:
        """It has nothing to close; its connections end with the process."""


class CachekitWithoutL1(Cachekit):
    about: ClassVar = About(
        name="cachekit without L1",
        distribution="cachekit",
        page=_PAGE,
        option="@cache(ttl=300, l1_enabled=False), REDIS_URL",
    )
    options: ClassVar[dict[str, Any]] = {"l1_enabled": False}
