"""A store that is there and does not answer costs a caller one deadline, and not one for each question."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from stampede_guard import Policy, StampedeGuard
from stampede_guard.testing.clock import FakeClock
from stampede_guard.testing.faults.faulty import FaultyStore
from tests.support.gate import soon, until


class Frozen:
    """Answers come too late. Deadlines pass only when the test says so."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = FaultyStore(clock=self.clock, wait=self.clock.sleep)
        self.guard = StampedeGuard(self.store, namespace="frozen", policy=Policy(ttl=60.0))

    def freeze(self) -> None:
        self.store.slow(3600.0)

    async def deadline(self) -> None:
        """The one that somebody waits for passes."""
        await until(lambda: self.clock._sleepers)
        self.clock.advance(self.store.deadline)


async def compute() -> int:
    return 1


def faces(guard: StampedeGuard) -> dict[str, Callable[[], Any]]:
    async def many(ids: list[int]) -> dict[int, int]:
        return dict.fromkeys(ids, 1)

    async def block() -> Any:
        async with guard.single("k") as entry:
            if entry.missing:
                await entry.set(1)
        return entry.value

    call, batch = guard.locked_cache(name="call")(compute), guard.cached_many(name="many")(many)
    l1 = guard.locked_cache(name="near", l1_ttl=60.0)(compute)

    async def first_of_batch() -> int:
        return (await batch([7, 8]))[7]  # type: ignore[no-any-return]

    return {
        "keyed": lambda: guard.get_or_compute("k", compute),
        "tagged": lambda: guard.get_or_compute("k", compute, tags=["t"]),
        "decorated": call,
        "with copies": l1,
        "refresh": call.refresh,
        "many": first_of_batch,
        "block": block,
        "tenant": lambda: guard.within("acme").get_or_compute("k", compute),
    }


@pytest.mark.parametrize(
    "face", ["keyed", "tagged", "decorated", "with copies", "refresh", "many", "block", "tenant"]
)
async def test_a_frozen_store_costs_one_deadline_before_the_computation(face: str) -> None:
    frozen = Frozen()
    try:
        frozen.freeze()
        caller = asyncio.ensure_future(faces(frozen.guard)[face]())
        await frozen.deadline()
        # No other deadline passes from here on.
        assert await soon(caller) == 1
    finally:
        frozen.store.recover()
        closing = asyncio.ensure_future(frozen.guard.aclose())
        await _let_time_pass(frozen, closing)


@pytest.mark.parametrize("what", ["entry", "tag"])
async def test_a_frozen_store_costs_an_invalidation_one_deadline(what: str) -> None:
    frozen = Frozen()
    try:
        frozen.freeze()
        guard = frozen.guard
        told = asyncio.ensure_future(guard.invalidate("k") if what == "entry" else guard.invalidate_tag("t"))
        await frozen.deadline()
        assert await soon(told) == "pending"
    finally:
        frozen.store.recover()
        closing = asyncio.ensure_future(frozen.guard.aclose())
        await _let_time_pass(frozen, closing)


async def test_a_lost_answer_is_made_good_without_a_second_computation() -> None:
    store, computed = FaultyStore(deadline=0.05), 0

    async def count() -> int:
        nonlocal computed
        computed += 1
        return computed

    async with StampedeGuard(store, policy=Policy(ttl=60.0)) as guard:
        store.lose_replies(1)
        assert await soon(guard.get_or_compute("k", count)) == 1
        assert await soon(guard.get_or_compute("k", count)) == 1


async def _let_time_pass(frozen: Frozen, closing: asyncio.Future[None]) -> None:
    async with asyncio.timeout(60):
        while not closing.done():
            frozen.clock.advance(frozen.store.deadline)
            await asyncio.sleep(0.001)
    await closing
