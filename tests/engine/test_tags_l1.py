"""Tagged values kept in the process: a tag that changes ends them all, without being asked about each."""

from __future__ import annotations

import asyncio
from typing import Any

from stampede_guard import Policy
from stampede_guard.core.entry import Reading
from stampede_guard.engine.l1 import L1, MOST_FENCES, NOTHING
from stampede_guard.engine.plan import Plan
from stampede_guard.engine.tags.templates import tag_names
from stampede_guard.errors import StoreUnavailable
from stampede_guard.values.codec import codec_for
from tests.support.fixtures import guards_on
from tests.support.gate import until
from tests.support.guards import Guards
from tests.support.source import KEY, TAGS, Source

PLAN = Plan(title="t", policy=Policy(ttl=60, l1_ttl=10), codec=codec_for(int))
ONE = Reading(b"\x01", 1, 60_000, 0, 60_000)
T = ("t1", "t2")


def l1(*deaf: str) -> L1:
    return L1(lambda name: name not in deaf, max_bytes=1_000_000, max_entries=100)


guards = guards_on("memory", "valkey", "cluster")


async def kept(source: Source, guard: Any, name: str) -> None:
    """Ask until the value is kept: the first asks find no subscription yet."""

    async def is_kept() -> bool:
        await source.ask(guard, l1_ttl=60.0)
        return guard.engine.runtime().l1.find(name, names(guard)) is not NOTHING

    for _ in range(10_000):
        if await is_kept():
            return
    raise AssertionError("it was never kept")


def names(guard: Any) -> tuple[str, ...]:
    return tag_names(guard.prefix, sorted(TAGS))


async def test_a_copy_is_served_until_its_tag_changes_anywhere(guards: Guards) -> None:
    source, here, there = Source(), guards.guard(), guards.guard()
    name = guards.name(KEY)
    await kept(source, here, name)
    reads: list[str] = []
    session: Any = here.engine.runtime().session
    read = session.read
    session.read = session.read_tag = lambda wanted: reads.append(wanted) or read(wanted)
    assert await source.ask(here, l1_ttl=60.0) == 1
    assert reads == [], "it did not leave the process"
    await source.write(there)
    l1 = here.engine.runtime().l1
    await until(lambda: l1.find(name, names(here)) is NOTHING)
    assert await source.ask(here, l1_ttl=60.0) == 2
    await kept(source, here, name)
    await source.write(here, "all")
    assert l1.find(name, names(here)) is NOTHING, "its own invalidation is known at once"
    assert await source.ask(here, l1_ttl=60.0) == 3


async def test_another_tag_s_change_ends_nothing(guards: Guards) -> None:
    source, here = Source(), guards.guard()
    await kept(source, here, guards.name(KEY))
    await source.write(here, "project:8")
    assert here.engine.runtime().l1.find(guards.name(KEY), names(here)) == 1
    assert here.engine.runtime().l1.find(guards.name(KEY), names(here)[:1]) is NOTHING, "not under other tags"


async def test_a_gap_ends_all_copies(guards: Guards) -> None:
    source, here = Source(), guards.guard()
    await kept(source, here, guards.name(KEY))
    here.engine.runtime().gap()
    assert here.engine.runtime().l1.find(guards.name(KEY), names(here)) is NOTHING


def test_a_value_is_not_kept_if_its_tag_changed_while_it_was_read() -> None:
    store = l1()
    asked = store.ask("k", T)
    store.changed("t2", 1)
    store.keep("k", ONE, PLAN, asked, T)
    assert store.find("k", T) is NOTHING
    store.keep("k", ONE, PLAN, store.ask("k", T), T)
    assert store.find("k", T) == 1
    store.changed("t1", 1)
    assert store.find("k", T) is NOTHING


def test_what_is_kept_is_in_doubt_when_changes_since_were_forgotten() -> None:
    store = l1()
    store.keep("k", ONE, PLAN, store.ask("k", T), T)
    for number in range(MOST_FENCES):
        store.changed(str(number), 1)
        assert store.find("k", T) == 1
    store.changed("one more", 1)
    assert store.find("k", T) is NOTHING


def test_where_a_tag_s_changes_are_not_heard_nothing_is_kept() -> None:
    store = l1("t2")
    assert store.ask("k", T) is None
    assert store.ask("k") is not None


async def test_a_pending_invalidation_of_a_tag_ends_a_copy_read_while_the_store_was_asked_in_vain(
    namespace: str,
) -> None:
    async with Guards("memory", namespace) as guards:
        source, guard = Source(), guards.guard()
        await kept(source, guard, guards.name(KEY))
        session, read = guard.engine.runtime().session, asyncio.Event()
        drop_tag = session.drop_tag

        async def in_vain(name: str) -> None:
            # Read anew while the command is on its way: the store has not heard of it.
            await source.ask(guard, l1_ttl=60.0)
            read.set()
            raise StoreUnavailable("no answer")

        session.drop_tag = in_vain  # type: ignore[method-assign]
        source.number = 2
        assert await guard.invalidate_tag("project:7") == "pending"
        assert read.is_set()
        assert guard.engine.runtime().l1.find(guards.name(KEY), names(guard)) is NOTHING
        assert await source.ask(guard, l1_ttl=60.0) == 2
        session.drop_tag = drop_tag  # type: ignore[method-assign]
        await until(lambda: not guard.engine.runtime().away)


def test_a_tag_that_changed_before_the_first_read_does_not_bar_copies_for_ever() -> None:
    store = l1()
    store.expire_tag("#t")
    store.changed("#t", 1)
    asked = store.ask("k", ("#t",))
    store.keep("k", ONE, PLAN, asked, ("#t",))
    assert store.find("k", ("#t",)) is not NOTHING
