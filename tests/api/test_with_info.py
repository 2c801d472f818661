"""`with_info`, `peek` and `set` of decorated functions: where a value came from, and values without a computation."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from stampede_guard import (
    MISSING,
    CallInfo,
    Misuse,
    Policy,
    StampedeGuard,
    UnsupportedValue,
    configure,
    locked_cache,
)
from stampede_guard.stores.memory import MemoryStore
from stampede_guard.testing.faults.faulty import FaultyStore
from tests.support.clock import Clock
from tests.support.gate import Gate, until
from tests.support.sessions import patient

PATIENCE = 60.0

HOLDER = """
import asyncio, sys
from stampede_guard import StampedeGuard

async def compute() -> str:
    print("holding", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    return "late"

async def main() -> None:
    async with StampedeGuard.from_url(sys.argv[1], namespace=sys.argv[2]) as guard:
        print(await guard.get_or_compute("report:7", compute, ttl=60), flush=True)

asyncio.run(main())
"""


@contextlib.asynccontextmanager
async def slow_holder(url: str, namespace: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """Another process that holds the lease of report:7, and computes until it gets a line."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOLDER, url, namespace, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None and await process.stdout.readline() == b"holding\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


class Shop:
    """A guard, its clock, and functions of every kind."""

    def __init__(self, **policy: Any) -> None:
        self.clock = Clock()
        self.guard = StampedeGuard(MemoryStore(clock=self.clock), policy=Policy(ttl=60, **policy))
        self.runs = 0
        guard, shop = self.guard, self

        @guard.locked_cache()
        async def sales(day: int) -> int:
            shop.runs += 1
            return day

        @guard.locked_cache()
        def plain(day: int) -> int:
            shop.runs += 1
            return day

        self.sales, self.plain = sales, plain


class Till:
    """Its functions use the default guard."""

    number = 7

    def __cache_key__(self) -> int:
        return self.number

    @locked_cache(ttl=60)
    async def sales(self, day: int) -> int:
        return day

    @locked_cache(ttl=60)
    @classmethod
    async def rate(cls, day: int) -> int:
        return day


@pytest.fixture
async def till() -> AsyncIterator[Till]:
    guard = StampedeGuard(MemoryStore())
    configure(guard)
    yield Till()
    configure(None)
    await guard.aclose()


class TestInfo:
    async def test_a_computation_then_hits_that_grow_older(self) -> None:
        shop = Shop()
        assert await shop.sales.with_info(7) == CallInfo(7, "computed", 0.0)
        shop.clock.advance(25)
        assert await shop.sales.with_info(7) == CallInfo(7, "hit", 25.0)
        assert shop.runs == 1
        await shop.guard.aclose()

    async def test_methods_know_it_too(self, till: Till) -> None:
        assert (await till.sales.with_info(7)).source == "computed"
        assert (await till.sales.with_info(7)).source == "hit"
        assert (await Till.sales.with_info(till, 7)).source == "hit"
        assert (await till.rate.with_info(7)).source == "computed"
        assert (await Till.rate.with_info(7)).source == "hit"

    async def test_a_copy_in_this_process_knows_its_age(self) -> None:
        shop = Shop(l1_ttl=60)
        await shop.sales(7)
        shop.clock.advance(20)
        assert await shop.sales.with_info(7) == CallInfo(7, "hit", 20.0)
        shop.clock.advance(5)
        assert await shop.sales.with_info(7) == CallInfo(7, "l1", 25.0)
        await shop.guard.aclose()

    async def test_a_stale_value_and_the_collapsed_calls_of_its_refresh(self) -> None:
        shop = Shop(stale_ttl=600)
        await shop.sales(7)
        shop.clock.advance(100)
        assert await shop.sales.with_info(7) == CallInfo(7, "stale", 100.0)
        await until(lambda: not shop.guard.engine.judged.is_computing)
        assert (await shop.sales.with_info(7)).source == "hit"
        await shop.guard.aclose()

    async def test_one_computes_and_the_others_are_collapsed(self) -> None:
        guard, gate = StampedeGuard(MemoryStore()), Gate()

        async def compute() -> int:
            await gate.hold()
            return 7

        async def call() -> CallInfo[int]:
            return await guard.get_or_compute_with_info("report:7", compute, ttl=60)

        calls = [asyncio.create_task(call()) for _ in range(3)]
        await gate.arrival()
        gate.open()
        sources = [told.source for told in await asyncio.gather(*calls)]
        assert sorted(sources) == ["collapsed", "collapsed", "computed"]
        await guard.aclose()

    async def test_a_value_computed_in_another_process_is_collapsed(self) -> None:
        store, gate = MemoryStore(), Gate()
        one, other = StampedeGuard(store), StampedeGuard(store)

        async def compute() -> int:
            await gate.hold()
            return 7

        first = asyncio.create_task(one.get_or_compute("report:7", compute, ttl=60))
        await gate.arrival()
        second = asyncio.create_task(other.get_or_compute_with_info("report:7", compute, ttl=60))
        await until(lambda: other.engine.judged.is_computing)
        gate.open()
        assert await first == 7
        assert (await second).source == "collapsed"
        await one.aclose()
        await other.aclose()

    @pytest.mark.parametrize("how", ["async", "sync"])
    async def test_a_value_computed_beside_a_slow_process_is_a_fallback(
        self, how: str, valkey_url: str, namespace: str
    ) -> None:
        guard = StampedeGuard.from_url(patient(valkey_url), namespace=namespace, policy=Policy(ttl=60))
        other = StampedeGuard.from_url(patient(valkey_url), namespace=namespace)
        computed: list[str] = []

        def plain() -> str:
            computed.append(how)
            return "quick"

        async def compute() -> str:
            return plain()

        async def call() -> CallInfo[str]:
            if how == "async":
                return await guard.get_or_compute_with_info("report:7", compute, wait_timeout=0.05)
            ask = functools.partial(guard.sync.get_or_compute_with_info, "report:7", plain, wait_timeout=0.05)
            return await asyncio.to_thread(ask)

        async with asyncio.timeout(PATIENCE), slow_holder(valkey_url, namespace) as process:
            assert await call() == CallInfo("quick", "fallback", 0.0)
            assert await other.get("report:7") == "quick", "it is stored"
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(b"\n")
            assert await process.stdout.readline() == b"late\n", "the holder keeps its own value"
            assert await other.get("report:7") == "quick", "and does not replace the newer one"
        assert computed == [how]
        await guard.aclose()
        await other.aclose()

    async def test_while_the_store_is_away_it_comes_from_memory(self) -> None:
        store = FaultyStore()
        guard = StampedeGuard(store, policy=Policy(ttl=60))

        async def compute() -> int:
            return 7

        await guard.get_or_compute("report:7", compute)
        store.fail()
        await guard.get_or_compute("report:8", compute)
        assert (await guard.get_or_compute_with_info("report:7", compute)).source == "memory"
        await guard.aclose()

    async def test_modes_without_the_store_are_called_bypass(self) -> None:
        shop = Shop()
        with shop.guard.bypassed():
            assert await shop.sales.with_info(7) == CallInfo(7, "bypass", 0.0)
        for mode in ("bypass", "off", "shadow"):
            shop.guard.mode = mode  # type: ignore[assignment]
            assert await shop.sales.with_info(7) == CallInfo(7, "bypass", 0.0)
            assert await asyncio.to_thread(shop.plain.with_info, 7) == CallInfo(7, "bypass", 0.0)
        await shop.guard.aclose()

    async def test_a_block_knows_it_too(self) -> None:
        shop = Shop()
        async with shop.guard.single("report:7") as entry:
            with pytest.raises(Misuse):
                assert entry.info
            await entry.set(3)
            assert entry.info == CallInfo(3, "computed", 0.0)
        shop.clock.advance(10)
        async with shop.guard.single("report:7") as entry:
            assert entry.info == CallInfo(3, "hit", 10.0)
        await shop.guard.aclose()

    async def test_an_error_stays_an_error(self) -> None:
        guard = StampedeGuard(MemoryStore())

        async def compute() -> int:
            raise LookupError("no such report")

        with pytest.raises(LookupError):
            await guard.get_or_compute_with_info("report:7", compute)
        await guard.aclose()


class TestPeeking:
    async def test_it_never_computes(self) -> None:
        shop = Shop(stale_ttl=600)
        assert await shop.sales.peek(7) is MISSING
        await shop.sales(7)
        assert await shop.sales.peek(7) == 7
        shop.clock.advance(100)
        assert await shop.sales.peek(7) is MISSING, "a call would compute"
        assert shop.runs == 1 and not shop.guard.engine.judged.is_computing
        await shop.guard.aclose()

    async def test_it_waits_for_nobody(self) -> None:
        guard, gate = StampedeGuard(MemoryStore()), Gate()

        @guard.locked_cache(tags=("project:{project}",))
        async def quality(project: int) -> int | None:
            await gate.hold()
            return None

        call = asyncio.create_task(quality(7))
        await gate.arrival()
        assert await quality.peek(7) is MISSING
        gate.open()
        assert await call is None
        assert await quality.peek(7) is None, "a value"
        await guard.invalidate_tag("project:7")
        assert await quality.peek(7) is MISSING
        await guard.aclose()

    async def test_it_tells_hooks_nothing_and_takes_no_lease(self) -> None:
        told: list[object] = []
        store = MemoryStore()
        guard = StampedeGuard(store, hooks=(told.append,))

        @guard.locked_cache()
        async def quality(project: int) -> int:
            return project

        assert await quality.peek(7) is MISSING
        assert told == [] and len(store) == 0
        await guard.aclose()


class TestSetting:
    async def test_the_value_comes_first_and_fits_the_declared_type(self) -> None:
        shop = Shop()
        assert await shop.sales.set(70, 7) == "stored"
        assert await shop.sales(7) == 70 == await shop.sales.peek(7)
        with pytest.raises(UnsupportedValue):
            await shop.sales.set("seventy", 7)
        assert await asyncio.to_thread(shop.plain.set, 74, 7) == "stored"
        assert await asyncio.to_thread(shop.plain, 7) == 74 == await asyncio.to_thread(shop.plain.peek, 7)
        assert (await asyncio.to_thread(shop.plain.with_info, 7)).source == "hit"
        assert shop.runs == 0
        await shop.guard.aclose()

    async def test_of_a_method_too(self, till: Till) -> None:
        assert await till.sales.peek(7) is MISSING
        assert await till.sales.set(71, 7) == "stored" == await till.rate.set(72, day=7)
        assert (await till.sales(7), await till.rate(7), await till.sales.peek(7)) == (71, 72, 71)
        assert await Till.sales.set(73, till, 7) == "stored" == await Till.rate.set(74, 7)
        assert (await till.sales(7), await till.rate(7)) == (73, 74)

    async def test_its_lifetimes_are_the_functions(self) -> None:
        clock = Clock()
        guard = StampedeGuard(MemoryStore(clock=clock))

        @guard.locked_cache(ttl=lambda value: 10 * value)
        async def quality(project: int) -> int:
            return project

        assert await quality.set(2, 7) == "stored"
        clock.advance(15)
        assert await quality.peek(7) == 2
        assert await quality.set(0, 7) == "dropped", "0 means that it must not be stored"
        assert await quality.peek(7) is MISSING
        await guard.aclose()
