"""Tags: one write outdates many entries, whatever is under way at that moment."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from redis.asyncio.cluster import RedisCluster

from bench.herd.valkey import ValkeyServer
from stampede_guard import UNCHANGED, StampedeGuard, previous
from stampede_guard.errors import Misuse, WaitTimeout
from tests.support.commands import commands_naming
from tests.support.fixtures import guards_on
from tests.support.gate import Gate, soon, until
from tests.support.guards import Guards, joined
from tests.support.sessions import patient
from tests.support.source import KEY, TAGS, Source

# On the cluster the tags of a test live on all nodes.
guards = guards_on("memory", "valkey", "cluster")


@pytest.fixture
def source() -> Source:
    return Source()


async def age(guards: Guards, name: str, seconds: float) -> None:
    if not guards.url.startswith("redis+cluster"):
        await guards.age(name, seconds)
        return
    async with RedisCluster.from_url(guards.url.replace("redis+cluster", "redis")) as client:
        key = f"{{{name}}}:v"
        await client.pexpire(key, await client.pttl(key) - round(seconds * 1000))


# --- what is stored -------------------------------------------------------------------------------


@pytest.mark.parametrize("tag", TAGS)
async def test_each_tag_outdates_the_entry_in_every_process(guards: Guards, source: Source, tag: str) -> None:
    fleet = [guards.guard() for _ in range(3)]
    assert [await source.ask(guard) for guard in fleet] == [1, 1, 1]
    await source.write(fleet[1], tag)
    assert [await source.ask(guard) for guard in fleet] == [2, 2, 2]
    assert source.computed == 2


async def test_one_tag_outdates_many_entries_and_leaves_others_alone(guards: Guards) -> None:
    guard = guards.guard()
    computed: list[tuple[int, int]] = []

    @guard.locked_cache(tags=("project:{project}", "all"))
    async def tasks(project: int, page: int = 0) -> int:
        computed.append((project, page))
        return page

    calls = [(project, page) for project in (7, 8) for page in range(5)]
    for call in calls * 2:
        await tasks(*call)
    assert computed == calls
    computed.clear()
    assert await guard.invalidate_tag("project:7") == "done"
    for call in calls * 2:
        await tasks(*call)
    assert computed == [call for call in calls if call[0] == 7]
    computed.clear()
    await guard.invalidate_tag("all")
    for call in calls * 2:
        await tasks(*call)
    assert computed == calls


async def test_a_herd_after_an_invalidation_costs_one_computation(guards: Guards, source: Source) -> None:
    fleet = [guards.guard() for _ in range(3)]
    await source.ask(fleet[0])
    await source.write(fleet[0])
    callers = [source.ask(guard) for guard in fleet for _ in range(20)]
    assert await soon(asyncio.gather(*callers)) == [2] * 60
    assert source.computed == 2


async def test_a_stale_value_whose_tag_has_changed_is_not_served(guards: Guards, source: Source) -> None:
    guard = guards.guard(ttl=100.0, stale_ttl=1000.0)
    await source.ask(guard)
    await age(guards, guards.name(KEY), 500.0)
    await source.write(guard)
    gate = source.gate = Gate()
    caller = source.ask(guard)
    await gate.arrival()
    assert not caller.done()
    gate.open()
    assert await soon(caller) == 2


async def test_invalidate_refresh_and_explicit_keys_work_as_without_tags(guards: Guards) -> None:
    guard, other = guards.guard(), guards.guard()
    number = 0

    async def count(project: int) -> int:
        nonlocal number
        number += 1
        return number

    here, there = (each.locked_cache(tags=("p:{project}",))(count) for each in (guard, other))
    assert (await here(1), await there(1)) == (1, 1)
    assert await here.invalidate(1) == "done"
    assert (await there(1), await here(1)) == (2, 2)
    assert await there.refresh(1) == 3
    assert (await here(1), await there(1)) == (3, 3)
    await other.invalidate_tag("p:1")
    assert await here.refresh(1) == 4
    assert await there(1) == 4
    assert await guard.get_or_compute(KEY, lambda: count(1), tags=("p:1",)) == 5
    assert await guard.invalidate(KEY) == "done"
    assert await guard.get_or_compute(KEY, lambda: count(1), tags=("p:1",)) == 6


async def test_a_block_has_tags_too(guards: Guards) -> None:
    fleet = [guards.guard() for _ in range(2)]

    async def value(guard: StampedeGuard, new: int) -> int:
        async with guard.single(KEY, tags=TAGS) as entry:
            if entry.missing:
                await entry.set(new)
            found: int = entry.value
            return found

    assert [await value(fleet[0], 1), await value(fleet[1], 2)] == [1, 1]
    await fleet[0].invalidate_tag("all")
    assert [await value(fleet[1], 3), await value(fleet[0], 4)] == [3, 3]


async def test_ids_of_a_batch_have_tags_of_their_own(guards: Guards) -> None:
    guard = guards.guard()
    batches: list[list[int]] = []

    @guard.cached_many(ttl=60, tags=("item:{ids}", "shop:{shop}"))
    async def prices(ids: list[int], shop: str) -> dict[int, int]:
        batches.append(sorted(ids))
        return {id: id * 10 for id in ids if id != 4}

    for _ in range(2):
        assert await prices([1, 2, 3, 4], "a") == {1: 10, 2: 20, 3: 30}
    assert batches == [[1, 2, 3, 4]]
    await guard.invalidate_tag("item:2")
    await guard.invalidate_tag("item:4")
    await prices([1, 2, 3, 4], "a")
    assert batches[1:] == [[2, 4]]
    await prices([1, 2], "b")
    await guard.invalidate_tag("shop:a")
    await prices([1, 2], "b")
    await prices([1, 2], "a")
    assert batches[2:] == [[1, 2], [1, 2]]


async def test_an_absent_id_with_tags_is_remembered_for_its_own_time(namespace: str) -> None:
    async with Guards("memory", namespace) as guards:
        batches: list[list[int]] = []

        @guards.guard().cached_many(ttl=60, absent_ttl=5, tags=("item:{ids}",))
        async def prices(ids: list[int]) -> dict[int, int]:
            batches.append(ids)
            return {1: 10} if 1 in ids else {}

        await prices([1, 2])
        guards.clock.advance(6.0)
        await prices([1, 2])
        assert batches == [[1, 2], [2]]


async def test_plain_functions_have_tags_too(valkey_url: str, namespace: str) -> None:
    guard = StampedeGuard.from_url(patient(valkey_url), namespace=namespace)
    number = 0

    @guard.locked_cache(tags=("project:{project}",))
    def count(project: int) -> int:
        nonlocal number
        number += 1
        return number

    def calls() -> list[int]:
        return [count(7), count(7), count(8)]

    assert await asyncio.to_thread(calls) == [1, 1, 2]
    assert await guard.invalidate_tag("project:7") == "done"
    assert await asyncio.to_thread(calls) == [3, 3, 2]
    await guard.aclose()


# --- what is under way ----------------------------------------------------------------------------


async def test_a_computation_in_flight_reaches_only_those_who_came_before_it(
    guards: Guards, source: Source
) -> None:
    here, there = guards.guard(), guards.guard()
    gate = source.gate = Gate()
    early = source.ask(here)
    await gate.arrival()
    await source.write(there)
    late, elsewhere = source.ask(here), source.ask(there)
    await joined(here, guards.name(KEY), 2)
    await joined(there, guards.name(KEY), 1)
    source.gate = None
    gate.open()
    assert await soon(early) == 1
    assert await soon(asyncio.gather(late, elsewhere)) == [2, 2]
    assert [await source.ask(here), await source.ask(there)] == [2, 2]
    assert source.computed == 2


async def test_a_heard_value_is_held_against_the_tags(guards: Guards, source: Source) -> None:
    here, there, third = (guards.guard() for _ in range(3))
    gate = source.gate = Gate()
    computing = source.ask(here)
    await gate.arrival()
    waiting = source.ask(there)
    await joined(there, guards.name(KEY), 1)
    await source.write(third)
    late = source.ask(there)
    await joined(there, guards.name(KEY), 2)
    source.gate = None
    gate.open()
    assert await soon(computing) == 1
    assert await soon(late) == 2
    assert await soon(waiting) in (1, 2)


async def test_a_fallback_s_value_is_stored_with_the_tags_of_before_it(
    guards: Guards, source: Source
) -> None:
    holder, other = guards.guard(), guards.guard()
    slow = source.gate = Gate()
    holding = source.ask(holder)
    await slow.arrival()
    quick = source.gate = Gate()
    falling_back = source.ask(other, wait_timeout=0.05, fallback_timeout=60.0)
    await quick.arrival()
    await source.write(other)
    quick.open()
    assert await soon(falling_back) == 1, "it came before the write"
    source.gate = None
    late = source.ask(other)
    await joined(other, guards.name(KEY), 1)
    slow.open()
    assert await soon(late) == 2
    assert await soon(holding) == 1
    assert await source.ask(holder) == 2


async def test_an_outdated_value_does_not_keep_a_fallback_from_computing(
    guards: Guards, source: Source
) -> None:
    holder, other = guards.guard(), guards.guard()
    assert await source.ask(holder) == 1
    await source.write(holder)
    slow = source.gate = Gate()
    holding = source.ask(holder)
    await slow.arrival()
    source.gate = None
    assert await soon(source.ask(other, wait_timeout=0.05, fallback_timeout=60.0)) == 2
    slow.open()
    assert await soon(holding) == 2


async def test_an_outdated_value_is_no_refusal_to_a_caller_whose_time_ends_before_the_store_has_answered(
    guards: Guards, source: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    holder, other = guards.guard(), guards.guard()
    assert await source.ask(holder) == 1
    await source.write(holder)
    slow = source.gate = Gate()
    holding = source.ask(holder)
    await slow.arrival()
    source.gate = None
    session = other.engine.runtime().session
    acquire, answers = session.acquire, asyncio.Event()

    async def late(*args: Any, **fields: Any) -> Any:
        await answers.wait()
        return await acquire(*args, **fields)

    monkeypatch.setattr(session, "acquire", late)
    assert await soon(source.ask(other, wait_timeout=0.05, fallback_timeout=60.0)) == 2
    answers.set()
    slow.open()
    assert await soon(holding) == 2


async def test_without_a_fallback_an_outdated_value_is_no_last_resort(guards: Guards, source: Source) -> None:
    holder, other = guards.guard(), guards.guard()
    assert await source.ask(holder) == 1
    await source.write(holder)
    slow = source.gate = Gate()
    holding = source.ask(holder)
    await slow.arrival()
    with pytest.raises(WaitTimeout):
        await soon(source.ask(other, wait_timeout=0.05, fallback_limit=0))
    slow.open()
    assert await soon(holding) == 2


async def test_a_computation_bound_to_its_request_obeys_tags(guards: Guards, source: Source) -> None:
    here, there = guards.guard(stale_ttl=60.0), guards.guard(stale_ttl=60.0)
    gate = source.gate = Gate()
    early = source.ask(here, request_bound=True)
    await gate.arrival()
    await source.write(there)
    late = source.ask(here, request_bound=True)
    await joined(here, guards.name(KEY), 2)
    source.gate = None
    gate.open()
    assert await soon(early) == 1
    assert await soon(late) == 2


async def test_unchanged_does_not_bring_back_what_a_tag_has_outdated(namespace: str) -> None:
    async with Guards("memory", namespace) as guards:
        here, there = (guards.guard(ttl=100.0, stale_ttl=1000.0) for _ in range(2))
        known: list[Any] = []

        async def compute() -> int:
            old = previous()
            known.append(None if old is None else old.value)
            return UNCHANGED if old is not None else len(known)

        async def call() -> int:
            return await here.get_or_compute(KEY, compute, tags=TAGS)

        assert await call() == 1
        guards.clock.advance(500.0)
        assert await call() == 1, "stale, and found unchanged in the background"
        await until(lambda: not here.engine.runtime().flights)
        assert known == [None, 1]
        guards.clock.advance(500.0)
        session: Any = here.engine.runtime().session
        acquire = session.acquire

        async def acquire_after_the_tag_changed(*args: Any, **kwargs: Any) -> Any:
            await there.invalidate_tag("all")
            return await acquire(*args, **kwargs)

        session.acquire = acquire_after_the_tag_changed
        assert await call() == 1, "it came before the change"
        await until(lambda: not here.engine.runtime().flights)
        assert known == [None, 1, None]
        session.acquire = acquire
        assert await call() == 3


async def test_without_the_store_a_call_after_the_invalidation_of_this_process_is_not_served_from_before(
    guards: Guards, source: Source
) -> None:
    guard = guards.guard()
    gate = source.gate = Gate()

    async def bypassed() -> int:
        with guard.bypassed():
            return await source.ask(guard)

    early = asyncio.create_task(bypassed())
    await gate.arrival()
    await source.write(guard)
    late = asyncio.create_task(bypassed())
    await until(lambda: any(flight.joined == 2 for flight in guard.engine.runtime().flights.values()))
    source.gate = None
    gate.open()
    assert await soon(early) == 1
    assert await soon(late) == 2


async def test_two_calls_of_one_key_with_different_tags_are_told_so(guards: Guards, source: Source) -> None:
    guard = guards.guard()
    gate = source.gate = Gate()
    first = source.ask(guard, ("a", "b"))
    await gate.arrival()
    with pytest.raises(Misuse, match="under other tags"):
        await soon(source.ask(guard, ("a",)))
    with pytest.raises(Misuse, match="under other tags"):
        await soon(source.ask(guard, ()))
    same = source.ask(guard, ("b", "a"))
    await joined(guard, guards.name(KEY), 2)
    gate.open()
    assert await soon(asyncio.gather(first, same)) == [1, 1]
    source.gate = None
    assert await source.ask(guard, ("c",)) == 1
    assert source.computed == 2, "a value without this tag does not count"
    assert await source.ask(guard, ()) == 1
    assert await source.ask(guard, ("c",)) == 1


async def test_a_tagged_hit_is_one_command(own_valkey: ValkeyServer, namespace: str) -> None:
    async def compute() -> int:
        return 1

    async def call(guard: StampedeGuard) -> int:
        return await guard.get_or_compute(KEY, compute, tags=TAGS)

    # The process that hits holds no lease, so no late renewal of its own comes between.
    async with StampedeGuard.from_url(own_valkey.url, namespace=namespace) as there:
        await call(there)
    async with StampedeGuard.from_url(own_valkey.url, namespace=namespace) as here:
        await call(here)
        with commands_naming(KEY, own_valkey) as commands:
            assert await asyncio.gather(*(call(here) for _ in range(5))) == [1] * 5
            await here.engine.runtime().read_switches()
    assert [command.split()[0] for command in commands] == ["EVALSHA"], commands
    assert all(tag in commands[0] for tag in TAGS), commands
