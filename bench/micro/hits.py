"""The cost of a hit in one process: one after the other, and 64 at once.

64 at once have two forms, because asyncio itself takes a share of the first. In a *burst* they are gathered: 64 new
tasks, as in `await asyncio.gather(*map(f, ...))`. To make and end a task costs about 3 us, whatever it does. In a
*steady* stream the 64 callers exist, like the connections of a server, and call again and again. The rows named
"floor" show the cost that remains if key and guard cost nothing: one bare GET for all, futures and decoding, and then
the same without a store (`bench.micro.floors`).
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from redis.asyncio import Redis

from bench.micro.floors import NoStore, OneGet
from bench.micro.row import Row, speed
from bench.micro.value import VALUE, VALUE_AS_JSON
from stampede_guard import StampedeGuard

__all__ = ["HitSizes", "measure_hits"]

CALLERS = 64
Arm = Callable[[], Awaitable[None]]
Call = Callable[[int], Awaitable[Any]]


class HitSizes:
    """`repetitions` of all arms in turn; each arm makes `calls` calls, or close to that, at a time."""

    def __init__(self, *, repetitions: int = 25, calls: int = 1280) -> None:
        self.repetitions = repetitions
        self.calls = max(calls, CALLERS)
        self.rounds = max(1, calls // CALLERS)


async def measure_hits(url: str, sizes: HitSizes, *, loop_name: str, step: Callable[[], None]) -> list[Row]:
    """`step` is called after each repetition."""
    guard = StampedeGuard.from_url(url, namespace=f"micro-{loop_name}")
    client = Redis.from_url(url)
    one_get = await OneGet.on(url, "micro:0")
    try:
        arms = await _arms(guard, client, one_get, sizes)
        seconds: dict[str, list[float]] = {name: [] for name in arms}
        for repetition in range(sizes.repetitions + 1):
            for name, (arm, calls) in arms.items():
                begun = time.perf_counter()
                await arm()
                if repetition > 0:  # the first warms up
                    seconds[name].append((time.perf_counter() - begun) / calls * 1e6)
            step()
        return _rows(seconds, loop_name)
    finally:
        one_get.close()
        await guard.aclose()
        await client.aclose()


async def _arms(
    guard: StampedeGuard, client: Redis, one_get: OneGet, sizes: HitSizes
) -> dict[str, tuple[Arm, int]]:
    """Each arm and how many calls it makes."""

    @guard.locked_cache(ttl=3600)
    async def cached(number: int):  # type: ignore[no-untyped-def]
        return VALUE

    async def bare(number: int) -> Any:
        return json.loads(await client.get(f"micro:{number}"))

    for number in range(CALLERS):
        await client.set(f"micro:{number}", VALUE_AS_JSON)
        if await bare(number) != await cached(number):
            raise AssertionError("both sides must read the same value")

    distinct, hot = range(CALLERS), [0] * CALLERS
    at_once = sizes.rounds * CALLERS
    return {
        "bare sequential": (_sequential(bare, sizes.calls), sizes.calls),
        "sequential": (_sequential(cached, sizes.calls), sizes.calls),
        "bare distinct burst": (_bursts(bare, distinct, sizes.rounds), at_once),
        "distinct burst": (_bursts(cached, distinct, sizes.rounds), at_once),
        "bare hot burst": (_bursts(bare, hot, sizes.rounds), at_once),
        "hot burst": (_bursts(cached, hot, sizes.rounds), at_once),
        "hot burst get": (_bursts(one_get.call, hot, sizes.rounds), at_once),
        "hot burst floor": (_bursts(NoStore().call, hot, sizes.rounds), at_once),
        "bare hot steady": (_steady(bare, hot, sizes.rounds), at_once),
        "hot steady": (_steady(cached, hot, sizes.rounds), at_once),
        "hot steady get": (_steady(one_get.call, hot, sizes.rounds), at_once),
        "hot steady floor": (_steady(NoStore().call, hot, sizes.rounds), at_once),
    }


def _sequential(call: Call, calls: int) -> Arm:
    async def arm() -> None:
        for _ in range(calls):
            await call(0)

    return arm


def _bursts(call: Call, numbers: Iterable[int], rounds: int) -> Arm:
    async def arm() -> None:
        for _ in range(rounds):
            await asyncio.gather(*[call(number) for number in numbers])

    return arm


def _steady(call: Call, numbers: Iterable[int], rounds: int) -> Arm:
    async def caller(number: int) -> None:
        for _ in range(rounds):
            await call(number)

    async def arm() -> None:
        await asyncio.gather(*[caller(number) for number in numbers])

    return arm


def _rows(seconds: dict[str, list[float]], loop_name: str) -> list[Row]:
    def row(name: str, work: str, ours: str, baseline: str, target: float | None) -> Row:
        return speed(
            f"{name}_{loop_name}",
            f"{work} ({loop_name})",
            ours=seconds[ours],
            baseline=seconds[baseline],
            target=target,
        )

    return [
        row("sequential", "hits one after the other", "sequential", "bare sequential", 0.85),
        row("distinct_burst", "64 at once, distinct keys", "distinct burst", "bare distinct burst", 5),
        row("hot_steady", "64 callers, one hot key", "hot steady", "bare hot steady", 15),
        row(
            "hot_steady_get_floor",
            "  floor: one GET for all, no guard",
            "hot steady get",
            "bare hot steady",
            None,
        ),
        row("hot_steady_floor", "  floor: no store, no guard", "hot steady floor", "bare hot steady", None),
        row("hot_burst", "64 gathered anew, one hot key", "hot burst", "bare hot burst", 15),
        row(
            "hot_burst_get_floor",
            "  floor: one GET for all, no guard",
            "hot burst get",
            "bare hot burst",
            None,
        ),
        row("hot_burst_floor", "  floor: no store, no guard", "hot burst floor", "bare hot burst", None),
    ]
