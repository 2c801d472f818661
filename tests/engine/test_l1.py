"""The near store: hits without a round trip, which a change ends within a wake-up and a gap at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
import redis.asyncio

from bench.herd.cluster import ValkeyCluster, ValkeySentinel
from bench.herd.valkey import ValkeyServer
from stampede_guard import Policy, StampedeGuard
from stampede_guard.api.decorators.many import cached_many
from stampede_guard.core.entry import Reading
from stampede_guard.engine.l1 import L1, MOST_FENCES, NOTHING
from stampede_guard.engine.plan import Plan
from stampede_guard.engine.threads.portal import portal, portal_loop
from stampede_guard.errors import PolicyError
from stampede_guard.events import Event, Hit
from stampede_guard.testing import FaultyStore
from stampede_guard.values.codec import codec_for
from tests.support.clock import Clock
from tests.support.gate import soon, until
from tests.support.guards import Guards
from tests.support.inside import fences_of, runtimes_of
from tests.support.proxy import FaultProxy
from tests.support.sessions import patient

PLAN = Plan(title="t", policy=Policy(ttl=60, l1_ttl=10), codec=codec_for(int))


def reading(token: int, body: bytes = b"\x01", *, remaining: int = 60_000) -> Reading:
    return Reading(body, token, 60_000, 0, remaining)


def l1(clock: Clock | None = None, **fields: Any) -> L1:
    made = L1(lambda name: True, **({"max_bytes": 1_000_000, "max_entries": 100} | fields))
    if clock is not None:
        made.clock = clock
    return made


def kept(store: L1, name: str, token: int, **given: Any) -> bool:
    store.keep(name, reading(token, **given), PLAN, store.ask(name))
    found = store.get(name)
    return found is not None and found.token == token


# --- what is kept, and how long ---------------------------------------------------------------------------


def test_a_copy_is_good_for_l1_ttl_from_before_its_read() -> None:
    clock = Clock()
    store = l1(clock)
    asked = store.ask("k")
    clock.advance(3)
    store.keep("k", reading(1), PLAN, asked)
    clock.advance(6.9)
    assert store.find("k") == 1
    clock.advance(0.2)
    assert store.find("k") is NOTHING


def test_the_size_of_all_copies_is_told_in_steps_and_when_there_are_none() -> None:
    told: list[tuple[int, int]] = []
    store = l1(max_entries=1_000)
    for number in range(5):
        assert kept(store, f"untold{number}", 1)
    store.on_size = lambda size, change: told.append((size, change)) is None
    for number in range(500):
        assert kept(store, f"k{number}", 1)
    assert 10 < len(told) < 70, "each step is a sixteenth, or 4 KiB"
    assert told[0][1] == told[0][0], "the first change has what was there before anybody listened"
    assert sum(change for _, change in told) == told[-1][0] <= store.bytes
    assert store.bytes - told[-1][0] <= max(4096, store.bytes / 16)
    store.flush()
    assert told[-1][0] == 0 == sum(change for _, change in told)


def test_a_copy_is_never_good_for_longer_than_its_entry_is_fresh() -> None:
    clock = Clock()
    store = l1(clock)
    assert kept(store, "k", 1, remaining=4_000)
    clock.advance(3.9)
    assert store.find("k") == 1
    clock.advance(0.2)
    assert store.find("k") is NOTHING


def test_an_answer_that_was_overtaken_by_an_invalidation_is_not_kept() -> None:
    store = l1()
    asked = store.ask("k")
    store.changed("k", 9)
    store.keep("k", reading(5), PLAN, asked)
    assert store.find("k") is NOTHING
    assert kept(store, "k", 9), "what was computed since may be"
    store.changed("k", 9)
    assert store.find("k") == 1, "a message about what is known is no news"


def test_nor_is_one_whose_fence_was_forgotten_meanwhile() -> None:
    store = l1()
    asked = store.ask("k")
    store.changed("k", 9)
    for number in range(MOST_FENCES):
        store.changed(f"other {number}", 9)
    store.keep("k", reading(5), PLAN, asked)
    assert store.find("k") is NOTHING
    assert len(fences_of(store)) == MOST_FENCES


def test_nor_is_one_that_was_asked_for_before_a_gap() -> None:
    store = l1()
    assert kept(store, "other", 1)
    asked = store.ask("k")
    store.flush()
    store.keep("k", reading(5), PLAN, asked)
    assert (store.find("k"), store.find("other"), len(store), store.bytes) == (NOTHING, NOTHING, 0, 0)


def test_an_older_answer_does_not_take_the_place_of_a_newer_one() -> None:
    store = l1()
    asked = store.ask("k")
    assert kept(store, "k", 6)
    store.keep("k", reading(5), PLAN, asked)
    found = store.get("k")
    assert found is not None and found.token == 6


def test_without_a_subscription_nothing_is_asked_for_and_nothing_is_kept() -> None:
    hears = [False]
    store = L1(lambda name: hears[0], max_bytes=1000, max_entries=10)
    assert store.ask("k") is None
    store.keep("k", reading(1), PLAN, store.ask("k"))
    hears[0] = True
    asked = store.ask("k")
    hears[0] = False
    store.keep("k", reading(1), PLAN, asked)
    assert len(store) == 0


# --- in a guard ---------------------------------------------------------------------------------------------


class Source:
    """What is computed, and how often; and how often the store was asked for a value."""

    def __init__(self, value: Any = 0) -> None:
        self.value = value
        self.runs = 0
        self.reads = 0

    async def get(self) -> Any:
        self.runs += 1
        return self.value


@pytest.fixture(params=["memory", "valkey", "cluster", "sentinel"])
def where(request: pytest.FixtureRequest) -> str:
    match request.param:
        case "memory":
            return "memory"
        case "cluster":
            cluster: ValkeyCluster = request.getfixturevalue("valkey_cluster")
            return patient(cluster.url)
        case "sentinel":
            sentinel: ValkeySentinel = request.getfixturevalue("valkey_sentinel")
            return patient(sentinel.url)
        case _:
            url: str = request.getfixturevalue("valkey_url")
            return patient(url)


def counted(guard: StampedeGuard, source: Source) -> None:
    """From now on, count the reads of this guard's store."""
    runtime = guard.engine.runtime()
    read = runtime.read

    def counting(name: str) -> asyncio.Future[Reading | None]:
        source.reads += 1
        return read(name)

    runtime.read = counting
    runtime.session.read = counting  # type: ignore[method-assign]


async def warm(guard: StampedeGuard, call: Callable[[], Any], entries: int = 1) -> None:
    """Call until the near store has the value."""

    async def calls() -> None:
        while len(guard.engine.runtime().l1) < entries:
            await call()

    await soon(calls())


async def test_a_second_hit_asks_the_store_nothing(where: str, namespace: str) -> None:
    async with Guards(where, namespace) as guards:
        guard, source = guards.guard(), Source()

        @guard.locked_cache(ttl=300, l1_ttl=60)
        async def f(number: int) -> int:
            return int(await source.get())

        counted(guard, source)
        await warm(guard, lambda: f(1))
        reads = source.reads
        assert [await f(1) for _ in range(10)] == [0] * 10
        assert (source.runs, source.reads) == (1, reads)
        assert await guard.get_or_compute("k", source.get, ttl=300, l1_ttl=60) == 0
        assert (source.runs, source.reads) == (2, reads + 1), "other keys have values of their own"
        clock = guard.engine.runtime().l1.clock
        guard.engine.runtime().l1.clock = lambda: clock() + 61
        assert [await f(1) for _ in range(10)] == [0] * 10
        assert (source.runs, source.reads) == (2, reads + 2), "after l1_ttl the store is asked once"


async def test_an_invalidation_on_one_worker_is_seen_by_the_other_seven(where: str, namespace: str) -> None:
    async with Guards(where, namespace) as guards:
        source = Source("before")
        workers = [guards.guard() for _ in range(8)]

        async def call(guard: StampedeGuard) -> Any:
            return await guard.get_or_compute("k", source.get, ttl=300, l1_ttl=300)

        for guard in workers:
            await warm(guard, lambda: call(guard))  # noqa: B023  # used within the turn
        source.value = "after"
        assert await workers[3].invalidate("k") == "done"
        assert await call(workers[3]) == "after", "at once where it was called"
        await until(lambda: all(len(guard.engine.runtime().l1) == 0 for guard in workers))
        assert [await call(guard) for guard in workers] == ["after"] * 8
        assert source.runs == 2


async def test_a_refresh_reaches_the_others_too(where: str, namespace: str) -> None:
    async with Guards(where, namespace) as guards:
        source = Source("before")
        one, other = guards.guard(), guards.guard()

        def face(guard: StampedeGuard) -> Any:
            @guard.locked_cache(ttl=300, l1_ttl=300, name="same")
            async def f() -> str:
                return str(await source.get())

            return f

        here, there = face(one), face(other)
        await warm(one, here)
        await warm(other, there)
        source.value = "after"
        assert await here.refresh() == "after"
        await until(lambda: len(one.engine.runtime().l1) + len(other.engine.runtime().l1) == 0)
        assert (await here(), await there()) == ("after", "after")
        assert source.runs == 2


async def test_in_this_process_an_invalidation_is_seen_at_once_by_other_event_loops(
    valkey_url: str, namespace: str
) -> None:
    async with Guards(patient(valkey_url), namespace) as guards:
        guard, source = guards.guard(), Source("before")
        expired, asked = threading.Event(), threading.Event()
        found: list[Any] = []

        async def elsewhere() -> None:
            async def call() -> Any:
                return await guard.get_or_compute("k", source.get, ttl=300, l1_ttl=300)

            await warm(guard, call)
            asked.set()
            # This loop hears nothing while it waits here, and must not serve the copy all the same.
            expired.wait(60)
            found.append(guard.engine.runtime().l1.find(guards.name("k")))
            await guard.aclose()

        thread = threading.Thread(target=asyncio.run, args=(elsewhere(),))
        thread.start()
        await until(asked.is_set)
        assert await guard.invalidate("k") == "done"
        expired.set()
        await asyncio.to_thread(thread.join)
        assert found == [NOTHING]


async def test_an_answer_on_its_way_is_dropped_when_its_entry_is_invalidated(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    async with FaultProxy(own_valkey.port) as proxy, Guards(own_valkey.url, namespace) as guards:
        source = Source("before")
        other = guards.guard()
        slow = StampedeGuard.from_url(proxy.url, namespace=namespace, policy=Policy(l1_ttl=300))
        guards.made.append(slow)

        async def call(guard: StampedeGuard, key: str = "k") -> Any:
            return await guard.get_or_compute(key, source.get, ttl=300)

        await call(other)
        await warm(slow, lambda: call(slow, "another"))
        # 1. A read is answered, and the answer lies somewhere.
        runtime = slow.engine.runtime()
        read, arrived, held = runtime.session.read, asyncio.Event(), asyncio.Event()

        async def late(name: str) -> Reading | None:
            answer = await read(name)
            arrived.set()
            await held.wait()
            return answer

        runtime.session.read = late  # type: ignore[method-assign,assignment]
        caller = asyncio.create_task(call(slow))
        await soon(arrived.wait())
        # 2. The entry is invalidated, and this process hears of it.
        source.value = "after"
        await other.invalidate("k")
        await until(lambda: guards.name("k") in fences_of(runtime.l1))
        # 3. The answer arrives. Its caller began before the invalidation and may have it; nobody after.
        held.set()
        assert await soon(caller) == "before"
        runtime.session.read = read  # type: ignore[method-assign]
        assert runtime.l1.find(guards.name("k")) is NOTHING
        assert await call(slow) == "after"


async def test_while_the_subscription_is_lost_values_come_from_the_store(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    async with FaultProxy(own_valkey.port) as proxy, Guards(proxy.url, namespace) as guards:
        guard, source = guards.guard(), Source()

        async def call() -> Any:
            return await guard.get_or_compute("k", source.get, ttl=300, l1_ttl=300)

        counted(guard, source)
        await warm(guard, call)
        proxy.answer(b"SUBSCRIBE", b"-ERR not now\r\n")
        proxy.cut(lambda link: link.sent(b"SUBSCRIBE"))
        await until(lambda: len(guard.engine.runtime().l1) == 0)
        reads = source.reads
        assert [await call() for _ in range(5)] == [0] * 5
        assert (source.runs, source.reads) == (1, reads + 5), "each call asks the store"
        proxy.heal()
        await warm(guard, call)
        assert not guard.engine.runtime().away


async def test_a_subscription_killed_at_the_server_empties_the_near_store(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    async with Guards(own_valkey.url, namespace) as guards:
        guard, source = guards.guard(), Source()
        flushed = 0
        runtime = guard.engine.runtime()
        flush = runtime.l1.flush

        def counting() -> None:
            nonlocal flushed
            flushed += 1
            flush()

        async def call() -> Any:
            return await guard.get_or_compute("k", source.get, ttl=300, l1_ttl=300)

        await warm(guard, call)
        runtime.l1.flush = counting  # type: ignore[method-assign]
        async with redis.asyncio.Redis.from_url(own_valkey.url) as client:
            await client.client_kill_filter(_type="pubsub")
        await until(lambda: flushed)
        await warm(guard, call)
        assert source.runs == 1


async def test_while_the_store_is_away_the_last_values_take_over(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    async with Guards(own_valkey.url, namespace) as guards:
        guard, source = guards.guard(), Source()

        async def call() -> Any:
            return await guard.get_or_compute("k", source.get, ttl=300, l1_ttl=300)

        await warm(guard, call)
        own_valkey.kill()
        await until(lambda: len(guard.engine.runtime().l1) == 0)
        for _ in range(3):
            assert await soon(call()) == 0
        await until(lambda: guard.engine.runtime().away)
        runs = source.runs
        assert [await soon(call()) for _ in range(5)] == [0] * 5
        assert source.runs == runs


async def test_a_pending_invalidation_keeps_older_values_out(
    own_valkey: ValkeyServer, namespace: str
) -> None:
    async with Guards(own_valkey.url, namespace) as guards:
        guard, source = guards.guard(), Source("before")

        async def call() -> Any:
            return await guard.get_or_compute("k", source.get, ttl=300, l1_ttl=300)

        await warm(guard, call)
        runtime = guard.engine.runtime()
        own_valkey.kill()
        source.value = "after"
        assert await soon(guard.invalidate("k")) == "pending"
        assert runtime.l1.find(guards.name("k")) is NOTHING
        runtime.session.hears_changes = lambda name: True  # type: ignore[method-assign]
        assert runtime.l1.ask(guards.name("k")) is None


async def test_a_hit_from_a_copy_is_an_event_as_well(namespace: str) -> None:
    seen: list[Event] = []
    async with Guards("memory", namespace) as guards:
        guard, source = guards.guard(l1_ttl=300), Source()
        guard.add_hook(seen.append)

        @guard.locked_cache(ttl=300)
        async def f() -> int:
            return int(await source.get())

        await warm(guard, f)
        seen.clear()
        await f()
        assert [(type(event), getattr(event, "source", "")) for event in seen] == [(Hit, "l1")]


async def test_a_store_that_fails_in_a_users_test_empties_it() -> None:
    store, source = FaultyStore(), Source()
    async with StampedeGuard(store, policy=Policy(l1_ttl=300)) as guard:

        async def call() -> Any:
            return await guard.get_or_compute("k", source.get, ttl=300)

        await warm(guard, call)
        l1 = guard.engine.runtime().l1
        store.fail()
        await until(lambda: len(l1) == 0)
        assert l1.ask("default:=k") is None
        store.recover()
        await warm(guard, call)


async def test_a_clock_that_a_test_moves_ends_a_copys_time(namespace: str) -> None:
    async with Guards("memory", namespace) as guards:
        guard, source = guards.guard(l1_ttl=20), Source()

        async def call() -> Any:
            return await guard.get_or_compute("k", source.get, ttl=300)

        counted(guard, source)
        await warm(guard, call)
        reads = source.reads
        guards.clock.advance(21)
        assert await call() == 0
        assert source.reads == reads + 1


# --- modes ----------------------------------------------------------------------------------------------------


async def test_modes_and_bypassed_do_without_it_and_closing_ends_it(where: str, namespace: str) -> None:
    async with Guards(where, namespace) as guards:
        guard, source = guards.guard(), Source("before")

        @guard.locked_cache(ttl=300, l1_ttl=300)
        async def f() -> str:
            return str(await source.get())

        await warm(guard, f)
        source.value = "after"
        with guard.bypassed():
            assert await f() == "after"
        for mode in ("bypass", "off"):
            f.set_mode(mode)  # type: ignore[arg-type]
            assert await f() == "after"
        f.set_mode(None)
        guard.mode = "bypass"
        assert await f() == "after"
        guard.mode = None
        assert await f() == "before", "it is still what is stored"
        before = guard.engine.runtime()
        await guard.aclose()
        assert len(guard.engine.runtime().l1) == 0 and guard.engine.runtime() is not before


# --- whose object -----------------------------------------------------------------------------------------------


async def test_mutable_values_are_each_callers_own_and_immutable_ones_are_shared(namespace: str) -> None:
    async with Guards("memory", namespace) as guards:
        guard = guards.guard(l1_ttl=300)

        @guard.locked_cache(ttl=300)
        async def rows() -> dict[str, list[int]]:
            return {"a": [1]}

        @guard.locked_cache(ttl=300)
        async def text() -> str:
            return "x" * 100

        @guard.locked_cache(ttl=300, share=True)
        async def shared() -> list[int]:
            return [1]

        @guard.locked_cache(ttl=300, pickle=True)
        async def pickled() -> Any:
            inner = [1]
            return [inner, inner]

        for count, call in enumerate((rows, text, shared, pickled), 1):
            await warm(guard, call, count)
        spoiled = await rows()
        spoiled["a"].append(2)
        spoiled["b"] = []
        assert await rows() == {"a": [1]}
        (await pickled())[0].append(2)
        first, second = await pickled()
        assert first == [1] and first is second, "no copier could know that"
        assert await text() is await text()
        assert await shared() is await shared()


# --- plain functions, many ids ------------------------------------------------------------------------------------


def test_a_plain_functions_hit_does_not_leave_its_thread(valkey_url: str, namespace: str) -> None:
    guard, runs = StampedeGuard.from_url(patient(valkey_url), namespace=namespace), []

    @guard.locked_cache(ttl=300, l1_ttl=300)
    def f(number: int) -> int:
        runs.append(number)
        return len(runs)

    try:
        assert f(7) == 1
        runtime = runtimes_of(guard)[portal_loop()]  # type: ignore[index]
        for _ in range(10_000):
            f(7)
            if len(runtime.l1):
                break
        entered, left, over = threading.Event(), threading.Event(), threading.Event()

        def occupy() -> None:
            entered.set()
            left.wait(60)
            over.set()

        portal().loop.call_soon_threadsafe(occupy)
        assert entered.wait(60)
        assert f(7) == 1
        assert not over.is_set(), "the portal was busy, and was not needed"
        left.set()
        assert f.invalidate(7) == "done"
        assert f(7) == 2
        f.set_mode("off")
        assert f(7) == 3
    finally:
        guard.close()


async def test_many_ids_are_kept_one_by_one(where: str, namespace: str) -> None:
    async with Guards(where, namespace) as guards:
        guard, source = guards.guard(), Source()
        asked: list[list[int]] = []

        @cached_many(guard=guard, ttl=300, l1_ttl=300)
        async def names(ids: list[int]) -> dict[int, str]:
            asked.append(sorted(ids))
            return {id: f"n{id}" for id in ids if id != 3}

        counted(guard, source)
        await warm(guard, lambda: names([1, 2, 3]), 3)
        reads = source.reads
        assert await names([3, 2, 1]) == {2: "n2", 1: "n1"}
        assert (asked, source.reads) == ([[1, 2, 3]], reads)
        assert await names.invalidate([2]) == "done"
        assert await names([1, 2, 4]) == {1: "n1", 2: "n2", 4: "n4"}
        assert source.reads == reads + 2
        assert asked[1:] == [[2, 4]]


# --- fields -----------------------------------------------------------------------------------------------------


def test_the_room_is_the_guards_and_a_function_cannot_set_it() -> None:
    guard = StampedeGuard.from_url("memory://")
    with pytest.raises(PolicyError, match="belongs to the guard"):

        @guard.locked_cache(ttl=1, l1_bytes=5)
        async def f() -> int:
            return 1

    with pytest.raises(PolicyError, match="l1_ttl"):
        Policy(l1_ttl=-1)
