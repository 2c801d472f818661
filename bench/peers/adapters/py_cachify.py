"""py-cachify: https://github.com/EzyGang/py-cachify

Its documentation has no recipe for a stampede, so its parts are combined as well as they allow. `cached` is outside,
so that a hit takes no lock. `lock(nowait=False)` is for a miss. `cached` is also inside, so that a caller that had to
wait finds the value. Its documentation has stacked `cached` ("Multi-layer Usage"), and `lock` as a decorator. The lock
expires after 30 s, the default.
"""

from __future__ import annotations

from typing import Any, ClassVar

from redis.asyncio import from_url

from bench.peers.adapter import TTL, About, Compute

__all__ = ["PyCachify"]


class PyCachify:
    about: ClassVar = About(
        name="py-cachify",
        distribution="py-cachify",
        page="https://py-cachify.readthedocs.io/latest/reference/lock/",
        option="@cached(ttl=300) over @lock(nowait=False) over @cached(ttl=300)",
        note="our combination of its parts: its documentation has no recipe",
    )

    async def open(self, url: str, compute: Compute) -> None:
        from py_cachify import cached, init_cachify, lock

        self._client = from_url(url)
        init_cachify(async_client=self._client)

        @cached(key="report-{key}", ttl=TTL)
        @lock(key="report-{key}", nowait=False)
        @cached(key="report-{key}", ttl=TTL)
        async def report(key: str) -> dict[str, Any]:
            return await compute(key)

        self._report = report

    async def call(self, key: str) -> Any:
        return await self._report(key)

    async def close(self) -> None:
        await self._client.aclose()
