"""The cost of a call while the store is away, beside the cost on the store that is always there: memory.

A caller must not pay for an open breaker: nothing is sent, no caller waits for a time-out, and the value that the
process saw last is found at once. Each repetition measures both, one after the other.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable

from bench.herd.valkey import free_port
from bench.micro.row import Row, speed
from bench.micro.value import VALUE
from stampede_guard import StampedeGuard

__all__ = ["AwaySizes", "measure_away"]

Call = Callable[[int], Awaitable[object]]


class AwaySizes:
    """`repetitions` of `hits` calls of one key and `misses` calls of new ones, with either store."""

    def __init__(self, *, repetitions: int = 25, hits: int = 2000, misses: int = 200) -> None:
        self.repetitions = repetitions
        self.hits = hits
        self.misses = misses


async def measure_away(sizes: AwaySizes, *, step: Callable[[], None]) -> list[Row]:
    """`step` is called after each repetition."""
    async with (
        StampedeGuard.from_url(f"redis://127.0.0.1:{free_port()}", namespace="micro-away") as away,
        StampedeGuard.from_url("memory://", namespace="micro-memory") as memory,
    ):
        calls = {"away": _cached(away), "memory": _cached(memory)}
        for call in calls.values():
            await call(0)
        if not away.engine.runtime().away:
            raise AssertionError("the breaker must be open, or this measures something else")
        numbers = itertools.count(1)
        hits: dict[str, list[float]] = {name: [] for name in calls}
        misses: dict[str, list[float]] = {name: [] for name in calls}
        for repetition in range(sizes.repetitions + 1):
            for name, call in calls.items():
                hit = await _timed(call, [0] * sizes.hits)
                miss = await _timed(call, list(itertools.islice(numbers, sizes.misses)))
                if repetition > 0:  # the first warms up
                    hits[name].append(hit)
                    misses[name].append(miss)
            step()
    return [
        _row("away_hit", "store away: a value seen before", hits),
        _row("away_miss", "store away: a value computed anew", misses),
    ]


def _cached(guard: StampedeGuard) -> Call:
    @guard.locked_cache(ttl=3600, stale_ttl=3600)
    async def cached(number: int):  # type: ignore[no-untyped-def]
        return VALUE

    return cached


async def _timed(call: Call, numbers: list[int]) -> float:
    """Microseconds per call."""
    begun = time.perf_counter()
    for number in numbers:
        await call(number)
    return (time.perf_counter() - begun) / len(numbers) * 1e6


def _row(name: str, work: str, times: dict[str, list[float]]) -> Row:
    return speed(name, f"{work} (beside memory://)", ours=times["away"], baseline=times["memory"], target=1)
