"""The moment in which the store goes away: what the process has seen is served, also to the callers who notice it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from tests.support.guards import Guards

KEYS = range(20)


def function(guard: StampedeGuard, runs: list[int], *, stale_ttl: float = 0) -> Any:
    @guard.locked_cache(ttl=300, stale_ttl=stale_ttl, name="report")
    async def report(number: int) -> int:
        runs.append(number)
        return number

    return report


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("how", ["kill", "pause"])
async def test_no_value_that_was_seen_is_computed_again(
    own_valkey: ValkeyServer, how: str, at_once: bool
) -> None:
    runs: list[int] = []
    async with Guards(own_valkey.url, "shop") as guards:
        guard = guards.guard()
        report = function(guard, runs)
        for number in [*KEYS, *KEYS]:
            await report(number)
        getattr(own_valkey, how)()
        calls = [report(number) for number in KEYS]
        if at_once:
            assert await asyncio.gather(*calls) == list(KEYS)
        else:
            assert [await call for call in calls] == list(KEYS)
        assert runs == list(KEYS)


async def test_what_was_not_seen_is_computed_once(own_valkey: ValkeyServer) -> None:
    runs: list[int] = []
    async with Guards(own_valkey.url, "shop") as guards:
        report = function(guards.guard(), runs)
        await report(1)
        own_valkey.kill()
        assert await asyncio.gather(*(report(2) for _ in range(10))) == [2] * 10
        assert runs == [1, 2]


async def test_a_refresh_and_an_invalidated_entry_are_computed(own_valkey: ValkeyServer) -> None:
    runs: list[int] = []
    async with Guards(own_valkey.url, "shop") as guards:
        report = function(guards.guard(), runs)
        for number in (1, 2, 1, 2):
            await report(number)
        own_valkey.kill()
        await report.refresh(1)
        assert runs == [1, 2, 1]
        assert await report.invalidate(2) == "pending"
        assert await report(2) == 2
        assert runs == [1, 2, 1, 2]


async def test_a_stale_value_is_not_taken_for_a_fresh_one(own_valkey: ValkeyServer) -> None:
    runs: list[int] = []
    async with Guards(own_valkey.url, "shop") as guards:
        guard = guards.guard()
        report = function(guard, runs, stale_ttl=300)
        for _ in range(2):
            await report(1)
        runtime = guard.engine.runtime()
        later = runtime.now() + 301
        runtime.now = lambda: later
        own_valkey.kill()
        assert await report(1) == 1
        assert runs[0] == 1 and len(runs) == 2
