"""cashews: https://github.com/Krukov/cashews

Its README names two remedies for a stampede. `early` recalculates a hot entry before it expires. Its own docstring
calls it not good at a cold cache. `lock=True` is the remedy that the section "Locked" gives for `@cache`, and the one
that computes once. The lock lives as long as the entry, because the decorator passes its `ttl` to it. Hits take the
lock too. `protected=True`, the default, joins the calls of one process. The connection pool is its own default, 10.
"""

from __future__ import annotations

from typing import Any, ClassVar

from bench.peers.adapter import TTL, About, Compute

__all__ = ["Cashews"]


class Cashews:
    about: ClassVar = About(
        name="cashews",
        distribution="cashews",
        page="https://github.com/Krukov/cashews#locked",
        option="@cache(ttl=300, lock=True)",
    )

    async def open(self, url: str, compute: Compute) -> None:
        from cashews import Cache

        self._cache = Cache()
        self._cache.setup(url)

        @self._cache(ttl=TTL, key="report:{key}", lock=True)
        async def report(key: str) -> dict[str, Any]:
            return await compute(key)

        self._report = report

    async def call(self, key: str) -> Any:
        return await self._report(key)

    async def close(self) -> None:
        await self._cache.close()
