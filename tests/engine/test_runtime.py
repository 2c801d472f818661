"""What a process does for itself while the store is away, and what it still owes the store then."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from stampede_guard.api.types import CachedFunction
from stampede_guard.core.entry import Reading
from stampede_guard.engine.away.slots import Slots
from stampede_guard.engine.loops.runtime import Runtime
from stampede_guard.policy import Limits, Policy
from stampede_guard.stores.memory import MemoryStore
from tests.support.fields import fields_of_guard
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards
from tests.support.inside import pending_of, plan_of
from tests.support.proxy import FaultProxy

# Long, so that a deadlock is a test that fails and not one that waits its way out.
PATIENT = fields_of_guard(wait_timeout=3600, compute_timeout=3600, drain_timeout=0, max_local_computations=2)


async def without_store(unused_tcp_port: int) -> StampedeGuard:
    """A guard that knows already that its store is away."""
    guard = StampedeGuard.from_url(f"redis://127.0.0.1:{unused_tcp_port}", **PATIENT)

    async def compute() -> int:
        return 1

    await guard.get_or_compute("first", compute)
    assert guard.engine.runtime().away
    return guard


# --- computing alone --------------------------------------------------------------------------------------


async def test_cached_functions_that_call_each_other_do_not_wait_for_each_others_slots(
    unused_tcp_port: int,
) -> None:
    all_begun = asyncio.Barrier(2)

    async def innermost() -> int:
        return 1

    async with await without_store(unused_tcp_port) as guard:

        async def inner() -> int:
            return await guard.get_or_compute("innermost", innermost)

        async def outer() -> int:
            await all_begun.wait()
            return await guard.get_or_compute("inner", inner)

        callers = [guard.get_or_compute(f"outer:{i}", outer) for i in range(2)]
        assert await soon(asyncio.gather(*callers)) == [1, 1]


async def test_a_computation_with_a_slot_does_not_wait_for_one_that_queues_for_a_slot(
    unused_tcp_port: int,
) -> None:
    begun, go_on = asyncio.Barrier(3), asyncio.Event()

    async def inner() -> int:
        return 1

    async with await without_store(unused_tcp_port) as guard:

        async def outer() -> int:
            await begun.wait()
            await go_on.wait()
            return await guard.get_or_compute("inner", inner)

        callers = [asyncio.create_task(guard.get_or_compute(f"outer:{i}", outer)) for i in range(2)]
        await soon(begun.wait())
        # Called first by somebody else, it queues behind the two that are about to call it, too.
        queued = asyncio.create_task(guard.get_or_compute("inner", inner))
        await until(lambda: len(guard.engine.runtime().slots) == 1)
        go_on.set()
        assert await soon(asyncio.gather(queued, *callers)) == [1, 1, 1]


async def test_no_more_than_the_limit_compute_at_once_and_a_slot_goes_to_the_next(
    unused_tcp_port: int,
) -> None:
    gate = Gate()

    async def compute() -> int:
        await gate.hold()
        return 1

    async with await without_store(unused_tcp_port) as guard:
        callers = [asyncio.create_task(guard.get_or_compute(f"k:{i}", compute)) for i in range(5)]
        await until(lambda: len(guard.engine.runtime().slots) == 3)
        for _ in range(2):  # whoever has a slot computes some turns of the event loop later
            await gate.arrival()
        assert gate.entered == 2
        gate.open()
        assert await soon(asyncio.gather(*callers)) == [1] * 5


async def test_whoever_stops_waiting_for_a_slot_leaves_it_to_the_next() -> None:
    slots = Slots()
    assert await slots.take("holder", 1)
    leaving, staying = (asyncio.create_task(slots.take(who, 1)) for who in ("leaving", "staying"))
    await until(lambda: len(slots) == 2)
    slots.give_back()
    # In the very moment in which it is given the slot.
    leaving.cancel()
    assert await soon(staying)
    assert leaving.cancelled()


async def test_every_function_queues_with_its_own_limit() -> None:
    slots = Slots()
    assert await slots.take("first", 1)
    queued = asyncio.create_task(slots.take("second", 1))
    await until(lambda: len(slots) == 1)
    assert await soon(slots.take("third", 2))
    slots.give_back()
    assert not queued.done(), "there is still one at work, and its limit is one"
    slots.give_back()
    assert await soon(queued)


# --- invalidations that wait for the store ------------------------------------------------------------------


class Scripted:
    """A session, and the store that opens it: a test answers its commands by hand."""

    shared = True

    def __init__(self) -> None:
        self.away = False
        self.listener: Any = None
        self.reads: list[asyncio.Future[Reading | None]] = []
        self.invalidations: list[asyncio.Future[int]] = []

    def away_for(self, name: str) -> bool:
        return self.away

    def open_session(self, listener: Any, *, namespace: str = "") -> Any:
        self.listener = listener
        return self

    def turn(self, *, away: bool) -> None:
        self.away = away
        self.listener.breaker_changed(away=away)

    def read(self, name: str) -> asyncio.Future[Reading | None]:
        self.reads.append(asyncio.get_running_loop().create_future())
        return self.reads[-1]

    async def invalidate(self, name: str, *, policy: Policy) -> int:
        self.invalidations.append(asyncio.get_running_loop().create_future())
        return await self.invalidations[-1]

    async def aclose(self) -> None:
        """There is nothing to close."""


def value(body: bytes, token: int) -> Reading:
    return Reading(body, token, 60_000, 0, 59_000)


async def test_an_invalidation_asked_for_while_the_one_before_is_on_its_way_is_sent_too() -> None:
    store = Scripted()
    runtime = Runtime(store, Limits())
    store.turn(away=True)
    assert not await runtime.invalidate("k", Policy())
    store.turn(away=False)
    await until(lambda: len(store.invalidations) == 1)
    # The server has carried it out; then somebody stores a value, and the user writes and invalidates once more.
    store.turn(away=True)
    assert not await runtime.invalidate("k", Policy())
    store.invalidations[0].set_result(5)
    await until(lambda: pending_of(runtime).task is None or pending_of(runtime).task.done())
    store.turn(away=False)
    await until(lambda: len(store.invalidations) == 2)
    assert runtime.away, "until it is applied"
    store.invalidations[1].set_result(6)
    await until(lambda: not runtime.away)
    await runtime.aclose()


async def test_a_read_that_is_answered_after_a_pending_invalidation_is_not_what_is_served_then() -> None:
    store = Scripted()

    async def compute() -> str:
        return "new"

    guard = StampedeGuard(store)
    early = asyncio.create_task(guard.get_or_compute("k", compute))
    await until(lambda: store.reads)
    store.turn(away=True)
    assert await guard.invalidate("k") == "pending"
    codec = plan_of(guard, "k").codec
    store.reads[0].set_result(value(codec.encode("old"), 4))
    assert await soon(early) == "old", "it began before the invalidation"
    assert await soon(guard.get_or_compute("k", compute)) == "new"
    await guard.aclose()


async def test_a_value_that_arrives_after_an_invalidation_that_it_came_before_is_not_remembered() -> None:
    store = Scripted()
    runtime = Runtime(store, Limits())
    invalidation = asyncio.create_task(runtime.invalidate("k", Policy()))
    await until(lambda: store.invalidations)
    store.invalidations[0].set_result(5)
    assert await soon(invalidation)
    runtime.remember("k", value(b"old", 4))
    assert runtime.last.find("k", now=runtime.loop.time())[0] is None
    runtime.remember("k", value(b"new", 5))
    assert runtime.last.find("k", now=runtime.loop.time())[0] is not None
    await runtime.aclose()


# --- a refresh whose value cannot be stored ---------------------------------------------------------------


async def test_a_refresh_while_the_store_is_away_outdates_what_the_store_has(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    source = "before"
    runs = 0

    async with Guards(own_valkey.url, namespace) as guards, FaultProxy(own_valkey.port) as proxy:
        there = guards.guard()
        async with StampedeGuard.from_url(proxy.url, namespace=namespace) as here:

            async def read() -> str:
                nonlocal runs
                runs += 1
                return source

            def quality(guard: StampedeGuard) -> CachedFunction[[], str]:
                return guard.locked_cache(name="quality", ttl=300)(read)

            assert await quality(here)() == "before"
            await proxy.refuse()
            await soon(here.invalidate("something else"))
            await until(lambda: here.engine.runtime().session.away)
            source = "after"
            assert await soon(quality(here).refresh()) == "after"
            assert await soon(quality(here)()) == "after"
            assert runs == 2, "the new value serves this process as long as the store is away"
            await proxy.listen()
            await until(lambda: not here.engine.runtime().away)
            assert [await quality(guard)() for guard in (here, there)] == ["after", "after"]


async def test_a_refreshed_value_that_is_too_large_does_not_leave_the_old_one_behind() -> None:
    source = "small"

    async with StampedeGuard(MemoryStore()) as guard:

        @guard.locked_cache(max_value_bytes=100, inline_bytes=100)
        async def quality() -> str:
            return source

        assert await quality() == "small"
        source = "large" * 100
        assert await quality.refresh() == source
        assert await quality() == source


# --- the store's return -----------------------------------------------------------------------------------


async def test_what_still_waits_for_its_turn_when_the_store_comes_back_computes_with_a_lease(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    gate = Gate()

    async def compute() -> str:
        await gate.hold()
        return "value"

    async with Guards(own_valkey.url, namespace) as guards, FaultProxy(own_valkey.port) as proxy:
        fields = fields_of_guard(max_local_computations=1, wait_timeout=3600)
        async with StampedeGuard.from_url(proxy.url, namespace=namespace, **fields) as guard:
            await proxy.refuse()
            await soon(guard.invalidate("something else"))
            await until(lambda: guard.engine.runtime().session.away)
            callers = [asyncio.create_task(guard.get_or_compute(key, compute)) for key in ("first", "second")]
            await gate.arrival()
            await until(lambda: len(guard.engine.runtime().slots) == 1)
            await proxy.listen()
            await until(lambda: not guard.engine.runtime().away)
            gate.open()
            assert await soon(asyncio.gather(*callers)) == ["value"] * 2
            assert gate.entered == 2
            assert await guards.guard().get_or_compute("second", compute) == "value"
            assert gate.entered == 2, "stored, for everybody"


def watch_renewals(session: Any) -> asyncio.Event:
    """Set when a lease is renewed."""
    renewed, renew = asyncio.Event(), session.renew

    async def watched(name: str, **fields: Any) -> Any:
        renewed.set()
        return await renew(name, **fields)

    session.renew = watched
    return renewed


async def test_a_computation_renews_its_lease_after_a_third_of_it_and_has_no_task_before() -> None:
    def renewals() -> int:
        return sum(task.get_name() == "stampede_guard renewal" for task in asyncio.all_tasks())

    for lease_ttl, count in ((3600.0, 0), (0.3, 1)):
        gate = Gate()
        async with StampedeGuard(
            MemoryStore(), policy=Policy(lease_ttl=lease_ttl, poll_interval=0.1)
        ) as guard:
            holder = asyncio.create_task(guard.get_or_compute("k", gate.hold))
            await gate.arrival()
            renewed = watch_renewals(guard.engine.runtime().session)
            if count:
                await soon(renewed.wait())
            assert renewals() == count
            gate.open()
            await soon(holder)
            assert renewals() == 0


async def test_a_connection_that_was_lost_before_the_computation_began_makes_it_renew_at_once() -> None:
    gate = Gate()
    async with StampedeGuard(MemoryStore(), policy=Policy(lease_ttl=3600)) as guard:
        runtime = guard.engine.runtime()
        renewed, session = watch_renewals(runtime.session), cast(Any, runtime.session)
        acquire = session.acquire

        async def interrupted(name: str, **fields: Any) -> Any:
            runtime.gap()
            return await acquire(name, **fields)

        session.acquire = interrupted
        holder = asyncio.create_task(guard.get_or_compute("k", gate.hold))
        await soon(renewed.wait())
        gate.open()
        await soon(holder)


async def test_a_holder_renews_its_lease_as_soon_as_the_store_is_back() -> None:
    gate = Gate()

    async def compute() -> str:
        await gate.hold()
        return "value"

    async with StampedeGuard(MemoryStore(), policy=Policy(lease_ttl=3600)) as guard:
        holder = asyncio.create_task(guard.get_or_compute("k", compute))
        await gate.arrival()
        runtime = guard.engine.runtime()
        renewed = watch_renewals(runtime.session)
        runtime.breaker_changed(away=False)
        await soon(renewed.wait())
        gate.open()
        assert await soon(holder) == "value"
