"""The cost of a hit that does not leave the process (`l1_ttl`), one after the other.

The comparison is async_lru, the fastest cache of coroutines: a dictionary of futures by the arguments. It has no
invalidation and no lifetime that others can end. It gives the same object to all callers, and has no modes. The
difference in time is the cost of these features.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

from async_lru import alru_cache

from bench.micro.hits import HitSizes
from bench.micro.row import Row, speed
from bench.micro.value import VALUE
from stampede_guard import StampedeGuard

__all__ = ["measure_near"]

PATIENCE = 10.0
Call = Callable[[int], Awaitable[Any]]


async def measure_near(url: str, sizes: HitSizes, *, step: Callable[[], None]) -> list[Row]:
    """`step` is called after each repetition. Raises `TimeoutError` if nothing is ever kept in the process."""
    async with StampedeGuard.from_url(url, namespace="micro-near") as guard:
        calls = await _calls(guard)
        seconds: dict[str, list[float]] = {name: [] for name in calls}
        for repetition in range(sizes.repetitions + 1):
            for name, call in calls.items():
                begun = time.perf_counter()
                for _ in range(sizes.calls):
                    await call(7)
                if repetition > 0:  # the first warms up
                    seconds[name].append((time.perf_counter() - begun) / sizes.calls * 1e6)
            step()
    return [
        speed(
            "near_number",
            "hits in the process (l1_ttl), an int; beside async_lru",
            ours=seconds["number"],
            baseline=seconds["async_lru"],
            target=0.4,
        ),
        speed(
            "near_dictionary",
            "  a dictionary, each caller's own",
            ours=seconds["dictionary"],
            baseline=seconds["async_lru"],
            target=None,
        ),
        speed(
            "near_floor",
            "  floor: a coroutine that does nothing",
            ours=seconds["nothing"],
            baseline=seconds["async_lru"],
            target=None,
        ),
    ]


async def _calls(guard: StampedeGuard) -> dict[str, Call]:
    @guard.locked_cache(ttl=3600, l1_ttl=3600)
    async def number(number: int) -> int:
        return number

    @guard.locked_cache(ttl=3600, l1_ttl=3600)
    async def dictionary(number: int):  # type: ignore[no-untyped-def]
        return VALUE

    @alru_cache(maxsize=1024)
    async def lru(number: int) -> int:
        return number

    async def nothing(number: int) -> int:
        return number

    async with asyncio.timeout(PATIENCE):
        # Nothing is kept before the subscription stands.
        while len(guard.engine.runtime().l1) < 2:
            await number(7)
            await dictionary(7)
    return {"number": number, "dictionary": dictionary, "async_lru": lru, "nothing": nothing}
