"""A computation that asks whether the old value is still right."""

from __future__ import annotations

import asyncio
import itertools
from typing import Any

import pytest

from stampede_guard import UNCHANGED, Misuse, Previous, StampedeGuard, previous
from stampede_guard.core.scripts import Granted
from stampede_guard.errors import StoreUnavailable
from stampede_guard.testing import FaultyStore
from tests.support.clock import Clock
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards
from tests.support.inside import plan_of

KEY = "feed:7"


class Upstream:
    """A source with an etag, as an HTTP server has."""

    def __init__(self) -> None:
        self.etag = "a"
        self.transfers = 0
        self.asked: list[str | None] = []

    async def __call__(self) -> Any:
        old = previous()
        self.asked.append(old.value["etag"] if old is not None else None)
        if old is not None and old.value["etag"] == self.etag:
            return UNCHANGED
        self.transfers += 1
        return {"etag": self.etag}


async def test_a_stale_value_that_is_unchanged_is_fresh_again(guards: Guards) -> None:
    guard, upstream, name = guards.guard(), Upstream(), guards.name(KEY)
    fields: dict[str, Any] = {"ttl": 10, "stale_ttl": 600}
    await guard.get_or_compute(KEY, upstream, **fields)
    before = await guard.engine.runtime().session.read(name)
    await guards.age(name, 11)
    assert await guard.get_or_compute(KEY, upstream, **fields) == {"etag": "a"}
    await until(lambda: len(upstream.asked) == 2 and not guard.engine.runtime().flights)
    after = await guard.engine.runtime().session.read(name)
    assert before is not None and after is not None
    assert after.token > before.token and after.body == before.body
    assert after.remaining_ms > 600_000
    assert (upstream.asked, upstream.transfers) == ([None, "a"], 1)


async def test_a_refresh_may_find_it_unchanged_too(guards: Guards) -> None:
    guard, upstream = guards.guard(), Upstream()

    @guard.locked_cache(ttl=60)
    async def feed(url: str) -> dict[str, str]:
        return await upstream()  # type: ignore[no-any-return]

    await feed("u")
    assert await feed.refresh("u") == {"etag": "a"}
    upstream.etag = "b"
    assert await feed.refresh("u") == {"etag": "b"}
    assert (upstream.asked, upstream.transfers) == ([None, "a", "a"], 2)


@pytest.mark.parametrize("newer", [False, True])
async def test_what_a_refresh_was_to_replace_does_not_outlive_it_if_the_record_is_evicted(
    guards: Guards, newer: bool
) -> None:
    guard, other, gate = guards.guard(), guards.guard(), Gate()
    name, runs = guards.name(KEY), 0

    async def number() -> int:
        nonlocal runs
        runs += 1
        run = runs
        if run == 2:
            await gate.hold()
        return run

    plan = plan_of(guard, KEY)
    assert await guard.engine.serve(plan, guard.prefix + "=" + KEY, number) == 1
    refreshing = asyncio.create_task(guard.engine.refresh(plan, guard.prefix + "=" + KEY, number))
    await gate.arrival()
    if newer:
        session, policy = other.engine.runtime().session, plan.policy
        grant = await session.fallback(name, flight="beside", policy=policy, newer_than=2**53)
        assert isinstance(grant, Granted)
        body, runs = plan.codec.encode(3), 3
        assert await session.publish(
            name, flight="beside", grant=grant, outcome="value", body=body, policy=policy
        )
    else:
        await guards.evict_record(name)
    gate.open()
    await soon(refreshing)
    # Refused in both cases: for want of a record, or for what is newer, and that stays.
    assert await other.get_or_compute(KEY, number) == 3
    assert runs == 3


async def test_what_cannot_be_decoded_is_no_previous_value_of_a_refresh(guards: Guards) -> None:
    guard, upstream = guards.guard(), Upstream()

    @guard.locked_cache(ttl=60)
    async def feed(url: str) -> dict[str, str]:
        return await upstream()  # type: ignore[no-any-return]

    await guards.put(feed.key("u"), b"of another key, or damaged")
    assert await feed.refresh("u") == {"etag": "a"}
    assert upstream.asked == [None]


async def test_without_the_store_unchanged_does_not_bring_back_what_was_invalidated_here(
    namespace: str,
) -> None:
    async with Guards("memory", namespace) as guards:
        guard, upstream, held = guards.guard(), Upstream(), Gate()
        fields: dict[str, Any] = {"ttl": 10, "stale_ttl": 600}
        await guard.get_or_compute(KEY, upstream, **fields)
        await guards.age(guards.name(KEY), 11)
        runtime = guard.engine.runtime()
        session, read, invalidate = runtime.session, runtime.session.read, runtime.session.invalidate

        async def late(name: str) -> Any:
            answer = await read(name)
            await held.hold()
            return answer

        async def unanswered(*_: Any, **__: Any) -> int:
            raise StoreUnavailable("no answer")

        # 1. A caller's answer is on its way.
        session.read = late  # type: ignore[method-assign,assignment]
        caller = asyncio.create_task(guard.get_or_compute(KEY, upstream, **fields))
        await held.arrival()
        # 2. The entry is invalidated here, and the store does not hear of it.
        session.invalidate = unanswered  # type: ignore[method-assign]
        assert await guard.invalidate(KEY) == "pending"
        # 3. The answer arrives, and a computation begins that does without the store.
        held.open()
        assert await soon(caller) == {"etag": "a"}
        await until(lambda: not runtime.flights)
        assert upstream.asked == [None, None]
        session.read, session.invalidate = read, invalidate  # type: ignore[method-assign]
        await until(lambda: not runtime.away)


async def test_plain_functions_may_ask_as_well(guards: Guards) -> None:
    guard, asked = guards.guard(), []

    @guard.locked_cache(ttl=60)
    def number(of: str) -> int:
        old = previous()
        asked.append(None if old is None else old.value)
        return 1 if old is None else UNCHANGED

    await asyncio.to_thread(number, "x")
    assert await asyncio.to_thread(number.refresh, "x") == 1
    assert asked == [None, 1]
    await asyncio.to_thread(guard.close)


async def test_a_block_may_ask_as_well(guards: Guards) -> None:
    guard, name = guards.guard(), guards.name(KEY)
    async with guard.single(KEY, ttl=10, stale_ttl=600) as entry:
        assert entry.missing and entry.previous is None
        await entry.set(3)
    await guards.age(name, 11)
    async with guard.single(KEY, ttl=10, stale_ttl=600) as entry:
        assert entry.missing and entry.previous is not None and entry.previous.value == 3
        assert await entry.set(UNCHANGED) == 3


async def test_unchanged_without_an_old_value_is_an_error_that_says_so(guards: Guards) -> None:
    async def compute() -> Any:
        return UNCHANGED

    with pytest.raises(Misuse, match="no value that it could keep"):
        await guards.guard().get_or_compute(KEY, compute)


async def test_what_was_invalidated_before_the_computation_is_not_seen_by_it(guards: Guards) -> None:
    guard, other, gate, upstream = guards.guard(), guards.guard(), Gate(), Upstream()
    fields: dict[str, Any] = {"ttl": 10, "stale_ttl": 600}
    name = guards.name(KEY)
    await guard.get_or_compute(KEY, upstream, **fields)
    await guards.age(name, 11)
    session = guard.engine.runtime().session
    acquire = session.acquire

    async def later(*args: Any, **named: Any) -> Any:
        await gate.hold()
        return await acquire(*args, **named)

    # Read, and not yet asked for.
    session.acquire = later  # type: ignore[method-assign]
    assert await guard.get_or_compute(KEY, upstream, **fields) == {"etag": "a"}
    await gate.arrival()
    await other.invalidate(KEY)
    gate.open()
    await until(lambda: len(upstream.asked) == 2 and not guard.engine.runtime().flights)
    assert (upstream.asked, upstream.transfers) == ([None, None], 2)


async def test_what_was_invalidated_is_not_seen_by_a_computation_without_a_lease_either() -> None:
    store = FaultyStore(clock=(clock := Clock()))
    guard, other = StampedeGuard(store, namespace="test"), StampedeGuard(store, namespace="test")
    upstream, fields = Upstream(), {"ttl": 10.0, "stale_ttl": 600.0}
    await guard.get_or_compute(KEY, upstream, **fields)
    clock.advance(11)
    # It answers and grants nothing: the flight that has read the old value computes without a lease.
    store.refuse_writes()
    session = guard.engine.runtime().session
    acquire = session.acquire

    async def invalidated_first(name: str, **asked: Any) -> Any:
        assert await other.invalidate(KEY) == "done"
        return await acquire(name, **asked)

    session.acquire = invalidated_first  # type: ignore[method-assign]
    assert await guard.get_or_compute(KEY, upstream, **fields) == {"etag": "a"}
    await until(lambda: len(upstream.asked) == 2 and not guard.engine.runtime().flights)
    assert (upstream.asked, upstream.transfers) == ([None, None], 2)
    for each in (guard, other):
        await each.aclose()


async def test_what_is_invalidated_during_the_computation_does_not_come_back(guards: Guards) -> None:
    guard, other, gate = guards.guard(), guards.guard(), Gate()
    fields: dict[str, Any] = {"ttl": 10, "stale_ttl": 600}
    name = guards.name(KEY)
    seen: list[Previous | None] = []

    async def compute() -> Any:
        seen.append(previous())
        if seen[-1] is None:
            return len(seen)
        await gate.hold()
        return UNCHANGED

    await guard.get_or_compute(KEY, compute, **fields)
    await guards.age(name, 11)
    assert await guard.get_or_compute(KEY, compute, **fields) == 1
    await gate.arrival()
    await other.invalidate(KEY)
    gate.open()
    await until(lambda: not guard.engine.runtime().flights)
    assert await guard.engine.runtime().session.read(name) is None
    assert await soon(other.get_or_compute(KEY, compute, **fields)) == 3


async def test_who_comes_after_an_invalidation_gets_nothing_unchanged_from_before_it(guards: Guards) -> None:
    here, there, name, numbers = guards.guard(), guards.guard(), guards.name(KEY), itertools.count(1)

    async def stubborn() -> int:
        return UNCHANGED if previous() is not None else next(numbers)

    assert await here.get_or_compute(KEY, stubborn, ttl=60) == 1
    runtime, answered = here.engine.runtime(), Gate()
    acquire = runtime.session.acquire

    async def late(name: str, **asked: Any) -> Any:
        answer = await acquire(name, **asked)
        await answered.hold()
        return answer

    runtime.session.acquire = late  # type: ignore[method-assign]
    refresh = asyncio.create_task(here.refresh(KEY, stubborn, ttl=60))
    await answered.arrival()
    assert await there.invalidate(KEY) == "done"
    later = asyncio.create_task(here.get_or_compute(KEY, stubborn, ttl=60))
    await until(lambda: runtime.flights[name].joined == 2)
    answered.open()
    assert (await soon(refresh), await soon(later)) == (1, 2)


async def test_who_takes_over_after_an_invalidation_does_not_see_what_was_invalidated(guards: Guards) -> None:
    here, there, name, begun = guards.guard(), guards.guard(), guards.name(KEY), Gate()
    fields: dict[str, Any] = {"ttl": 60, "request_bound": True}

    async def slow() -> int:
        await begun.hold()
        return 2

    async def first() -> int:
        return 1

    assert await here.get_or_compute(KEY, first, **fields) == 1
    refresh = asyncio.create_task(here.refresh(KEY, slow, **fields))
    await begun.arrival()
    assert await there.invalidate(KEY) == "done"
    seen: list[Any] = []

    async def looking() -> int:
        seen.append(previous())
        return 4

    later = asyncio.create_task(here.get_or_compute(KEY, looking, **fields))
    await until(lambda: here.engine.runtime().flights[name].joined == 2)
    refresh.cancel()
    assert await soon(later) == 4
    assert seen == [None]


async def test_its_age_counts_from_when_it_was_stored(guards: Guards) -> None:
    guard, ages = guards.guard(), []

    async def compute() -> Any:
        old = previous()
        if old is None:
            return 1
        ages.append(old.age)
        old_value = old.value
        assert old_value == 1 and old.token > 0
        return UNCHANGED

    fields: dict[str, Any] = {"ttl": 100, "stale_ttl": 6000}
    await guard.get_or_compute(KEY, compute, **fields)
    await guards.age(guards.name(KEY), 1000)
    await guard.get_or_compute(KEY, compute, **fields)
    await until(lambda: ages)
    assert 1000 <= ages[0] < 1500


async def test_nothing_is_old_outside_of_a_computation_nor_without_a_store(guards: Guards) -> None:
    assert previous() is None
    guard, upstream = guards.guard(mode="bypass"), Upstream()
    for _ in range(2):
        await guard.get_or_compute(KEY, upstream)
    assert upstream.asked == [None, None]


async def test_ttl_and_should_cache_are_asked_about_the_value_that_is_kept(guards: Guards) -> None:
    guard, upstream, name = guards.guard(), Upstream(), guards.name(KEY)
    lifetimes = iter([10.0, 50.0])
    seen = []

    def ttl(value: Any) -> float:
        seen.append(value)
        return next(lifetimes)

    await guard.get_or_compute(KEY, upstream, ttl=ttl, stale_ttl=600)
    await guards.age(name, 11)
    await guard.get_or_compute(KEY, upstream, ttl=ttl, stale_ttl=600)
    await until(lambda: len(seen) == 2 and not guard.engine.runtime().flights)
    reading = await guard.engine.runtime().session.read(name)
    assert reading is not None and reading.total_ms == 650_000
    assert seen == [{"etag": "a"}, {"etag": "a"}]


async def test_functions_of_many_ids_are_told_that_it_is_not_for_them(guards: Guards) -> None:
    guard = guards.guard(error_ttl=0)

    @guard.cached_many(ttl=60)
    async def asking(ids: list[int]) -> dict[int, int]:
        previous()
        return {id: id for id in ids}

    @guard.cached_many(ttl=60)
    async def keeping(ids: list[int]) -> dict[int, int]:
        return {id: UNCHANGED if id == 2 else id for id in ids}

    with pytest.raises(Misuse, match="cached_many"):
        await asking([1])
    with pytest.raises(Misuse, match="UNCHANGED for an id"):
        await keeping([1, 2])
    assert await keeping([1]) == {1: 1}
