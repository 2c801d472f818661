"""What was deployed after the incident: a worker's lock, then a lock in Redis. See `bench.herd.modes.incident_fix`."""

from __future__ import annotations

from typing import Any, ClassVar

from redis.asyncio import Redis

from bench.herd.modes import incident_fix
from bench.peers.adapter import TTL, About, Compute

__all__ = ["IncidentFix"]


class IncidentFix:
    about: ClassVar = About(
        name="incident fix",
        distribution="",
        page="../herd/modes.py",
        option="asyncio.Lock, then SET NX EX 30; a loser sleeps 0.1 s once",
    )

    async def open(self, url: str, compute: Compute) -> None:
        self._client = Redis.from_url(url)
        self._compute = compute

    async def call(self, key: str) -> Any:
        return await incident_fix(self._client, f"fix:{key}", TTL, lambda: self._compute(key))

    async def close(self) -> None:
        await self._client.aclose()
