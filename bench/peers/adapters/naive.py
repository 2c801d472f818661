"""Get, compute, set: the usual code without any protection from a stampede. See `bench.herd.modes.naive`."""

from __future__ import annotations

from typing import Any, ClassVar

from redis.asyncio import Redis

from bench.herd.modes import naive
from bench.peers.adapter import TTL, About, Compute

__all__ = ["Naive"]


class Naive:
    about: ClassVar = About(
        name="naive",
        distribution="",
        page="../herd/modes.py",
        option="get, compute, set",
    )

    async def open(self, url: str, compute: Compute) -> None:
        self._client = Redis.from_url(url)
        self._compute = compute

    async def call(self, key: str) -> Any:
        return await naive(self._client, f"naive:{key}", TTL, lambda: self._compute(key))

    async def close(self) -> None:
        await self._client.aclose()
