"""stampede_guard as its README shows it first: `guard.locked_cache(ttl=...)`, every other field at its default."""

from __future__ import annotations

from typing import Any, ClassVar

from bench.peers.adapter import TTL, About, Compute

__all__ = ["Ours"]


class Ours:
    about: ClassVar = About(
        name="ours",
        distribution="",
        page="../../README.md",
        option="@guard.locked_cache(ttl=300)",
        note="this checkout",
    )

    async def open(self, url: str, compute: Compute) -> None:
        from stampede_guard import StampedeGuard

        self._guard = StampedeGuard.from_url(url, namespace="peers")

        @self._guard.locked_cache(ttl=TTL)
        async def report(key: str) -> dict[str, Any]:
            return await compute(key)

        self._report = report

    async def call(self, key: str) -> Any:
        return await self._report(key)

    async def close(self) -> None:
        await self._guard.aclose()
