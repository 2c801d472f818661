"""Hits in process memory: `python -m bench.peers.memory URL CALLS` prints microseconds per call, as one line of JSON.

All libraries in one process and one loop, taking turns, so that what else the machine does falls on all of them. What
is not installed, or not built, is absent and said so. Each arm calls one decorated coroutine with one key that is
there.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.metadata
import json
import statistics
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from bench.micro.value import VALUE
from bench.peers.adapter import TTL
from stampede_guard import Policy, StampedeGuard

__all__ = ["ARMS", "measure_memory"]

REPETITIONS = 9
Call = Callable[[str], Awaitable[Any]]
Making = Callable[[str], Call]


class NotBuilt(Exception):
    """This arm cannot run in this environment; the message says why."""


def _empty(url: str) -> Call:
    async def empty(key: str) -> dict[str, Any]:
        return VALUE

    return empty


def _async_lru(url: str) -> Call:
    from async_lru import alru_cache

    cached: Call = alru_cache(maxsize=32)(_empty(url))  # type: ignore[arg-type,unused-ignore]
    return cached


def _cashews(url: str) -> Call:
    from cashews import Cache

    cache = Cache()
    cache.setup("mem://")

    @cache(ttl=TTL, key="report:{key}")
    async def report(key: str) -> dict[str, Any]:
        return VALUE

    return report


def _aiocache(url: str) -> Call:
    from aiocache import cached

    @cached(ttl=TTL)
    async def report(key: str) -> dict[str, Any]:
        return VALUE

    return report


def _cachekit(url: str) -> Call:
    from cachekit import cache

    @cache(ttl=TTL, backend=None)
    async def report(key: str) -> dict[str, Any]:
        return VALUE

    return report


def _fastapi_cache2(url: str) -> Call:
    from fastapi_cache import FastAPICache
    from fastapi_cache.backends.inmemory import InMemoryBackend
    from fastapi_cache.decorator import cache

    FastAPICache.init(InMemoryBackend(), prefix="peers")

    @cache(expire=TTL)
    async def report(key: str) -> dict[str, Any]:
        return VALUE

    return report


def _ours(url: str, **fields: Any) -> Call:
    if "l1_ttl" not in {field.name for field in dataclasses.fields(Policy)}:
        raise NotBuilt("Policy has no l1_ttl yet")
    guard = StampedeGuard.from_url(url, namespace="peers")

    @guard.locked_cache(ttl=TTL, l1_ttl=60, **fields)
    async def report(key: str) -> dict[str, Any]:
        return VALUE

    return report


ARMS: Final[dict[str, tuple[str, str, Making]]] = {
    "empty coroutine": ("", "nothing", _empty),
    "async_lru": ("async-lru", "@alru_cache(maxsize=32)", _async_lru),
    "cashews": ("cashews", 'setup("mem://"), @cache(ttl=300)', _cashews),
    "aiocache": ("aiocache", "@cached(ttl=300), SimpleMemoryCache", _aiocache),
    "cachekit": ("cachekit", "@cache(ttl=300, backend=None)", _cachekit),
    "fastapi-cache2": ("fastapi-cache2", "@cache(expire=300), InMemoryBackend", _fastapi_cache2),
    "ours, shared": ("", "l1_ttl=60, share=True", lambda url: _ours(url, share=True)),
    "ours": ("", "l1_ttl=60: a dictionary of its own for each caller", _ours),
}
"""Name: distribution, option, how to make it. All but "ours" and fastapi-cache2 give every caller the same object."""


async def measure_memory(url: str, calls: int) -> dict[str, dict[str, Any]]:
    """By arm: `us` per call, or `absent` with the reason."""
    figures: dict[str, dict[str, Any]] = {}
    made: dict[str, Call] = {}
    for name, (distribution, _, make) in ARMS.items():
        try:
            if distribution:
                importlib.metadata.version(distribution)
            made[name] = make(url)
            await made[name]("hot")
        except importlib.metadata.PackageNotFoundError:
            figures[name] = {"absent": f"{distribution} is not installed"}
        except NotBuilt as reason:
            figures[name] = {"absent": str(reason)}
    seconds: dict[str, list[float]] = {name: [] for name in made}
    for _ in range(REPETITIONS):
        for name, call in made.items():
            begun = time.perf_counter()
            for _ in range(calls):
                await call("hot")
            seconds[name].append((time.perf_counter() - begun) / calls * 1e6)
    for name, samples in seconds.items():
        figures[name] = {"us": statistics.median(samples[1:])}
    return {name: figures[name] for name in ARMS}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(measure_memory(sys.argv[1], int(sys.argv[2])))))
