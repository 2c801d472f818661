"""What a hit costs in one process, as a ratio to a bare GET that takes turns with it: times alone say little."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from redis.asyncio import Redis

from bench.micro.value import VALUE, VALUE_AS_JSON

__all__ = ["measure_hits"]

_KEY = "peers:bare"
Call = Callable[[str], Awaitable[Any]]


async def measure_hits(url: str, call: Call, *, repetitions: int, calls: int, callers: int) -> dict[str, Any]:
    """The rate of `call`, as a multiple of a bare GET: one after the other, and `callers` at once on one key.

    The arms take turns. The figures are medians of the ratios of neighbours. `alone_us` and `together_us` are medians
    of microseconds per call. `shared` is 1 if two callers at once get the same object.
    """
    client = Redis.from_url(url)
    try:
        await client.set(_KEY, VALUE_AS_JSON)
        if await call("hot") != VALUE or await call("hot") != VALUE:
            raise RuntimeError("the peer does not return what was computed")
        first, second = await asyncio.gather(call("hot"), call("hot"))
        alone = [await _neighbours(client.get, call, calls, 1) for _ in range(repetitions + 1)][1:]
        together = [await _neighbours(client.get, call, calls, callers) for _ in range(repetitions + 1)][1:]
    finally:
        await client.aclose()
    return {
        "alone": statistics.median(bare / hit for bare, hit in alone),
        "together": statistics.median(bare / hit for bare, hit in together),
        "shared": int(first is second),
        "alone_us": statistics.median(hit for _, hit in alone),
        "together_us": statistics.median(hit for _, hit in together),
        "get_us": statistics.median(bare for bare, _ in alone),
    }


async def _neighbours(get: Call, call: Call, calls: int, callers: int) -> tuple[float, float]:
    """Microseconds per call of the bare client and of `call`, measured one after the other."""
    return await _microseconds(get, _KEY, calls, callers), await _microseconds(call, "hot", calls, callers)


async def _microseconds(call: Call, key: str, calls: int, callers: int) -> float:
    each = max(1, calls // callers)

    async def caller() -> None:
        for _ in range(each):
            await call(key)

    begun = time.perf_counter()
    if callers == 1:
        await caller()
    else:
        await asyncio.gather(*[caller() for _ in range(callers)])
    return (time.perf_counter() - begun) / (each * callers) * 1e6
