"""A server that is out of memory and evicts nothing: it still has one computation per key, and small values."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from stampede_guard.core.scripts import FailedRecently, Found, Granted, Held
from stampede_guard.errors import ComputeFailed
from stampede_guard.stores.connections.wire import entry_keys
from stampede_guard.stores.scripted import WAKE_BYTES
from tests.support.asking import POLICY, fail, fill, grant, publish
from tests.support.gate import Gate, soon
from tests.support.guards import Guards
from tests.support.listener import PATIENCE
from tests.support.sessions import LONG, Sessions


@pytest.fixture
async def full(outside: redis.asyncio.Redis) -> AsyncIterator[Any]:
    """Call it, and from then on the server denies whatever needs memory."""

    async def fill_up() -> None:
        await outside.config_set("maxmemory", "1")
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            await outside.set("no-room", "x")

    yield fill_up
    await outside.config_set("maxmemory", "0")


async def test_reads_go_on(server: ValkeyServer, sessions: Sessions, name: str, full: Any) -> None:
    session, _ = sessions.open(server.url)
    await fill(session, name)
    await full()
    assert await session.read(name) is not None


async def test_invalidation_goes_on_and_what_was_computed_before_is_refused(
    server: ValkeyServer, sessions: Sessions, name: str, full: Any
) -> None:
    (session, _), (other, heard) = sessions.open(server.url), sessions.open(server.url)
    await fill(session, name)
    granted = await session.acquire(name, flight="holder", policy=POLICY, newer_than=2**53)
    assert isinstance(granted, Granted)
    assert isinstance(await other.acquire(name, flight="other", policy=POLICY, newer_than=2**53), Held)
    await full()
    fence = await session.invalidate(name, policy=POLICY)
    assert fence > granted.token and await session.read(name) is None
    assert (await heard.message(name)).token == fence
    assert not await publish(session, name, granted)


async def test_a_full_server_still_lets_only_one_compute_and_wakes_the_theirswith_the_value(
    server: ValkeyServer, sessions: Sessions, name: str, full: Any
) -> None:
    (session, _), (other, heard) = sessions.open(server.url), sessions.open(server.url)
    await session.read(name)
    await full()
    granted = await grant(session, name)
    assert isinstance(await other.acquire(name, flight="other", policy=POLICY), Held)
    assert await session.renew(name, flight="holder", token=granted.token, policy=POLICY)
    await publish(session, name, granted)
    message = await heard.message(name)
    assert message.reading is not None and message.reading.body == b"body"
    reading = await session.read(name)
    assert reading is not None and reading.body == b"body", "small enough to be kept in any case"
    assert isinstance(await other.acquire(name, flight="other", policy=POLICY), Found)


async def test_what_is_larger_than_inline_bytes_is_told_and_not_kept(
    server: ValkeyServer, sessions: Sessions, name: str, full: Any
) -> None:
    (session, _), (other, heard) = sessions.open(server.url), sessions.open(server.url)
    await full()
    granted = await grant(session, name)
    assert isinstance(await other.acquire(name, flight="other", policy=POLICY), Held)
    assert await publish(session, name, granted, b"x" * (POLICY.inline_bytes + 1))
    assert (await heard.message(name)).token == granted.token
    assert await session.read(name) is None, "there is no room for it"
    await grant(other, name, "other")


async def test_callers_one_after_the_other_are_served_what_the_first_of_them_computed(
    server: ValkeyServer, namespace: str, full: Any
) -> None:
    computed = 0

    async def compute() -> int:
        nonlocal computed
        computed += 1
        return computed

    async def fail() -> int:
        nonlocal computed
        computed += 1
        raise LookupError("nothing there")

    async with Guards(server.url, namespace) as guards:
        processes = [guards.guard(error_ttl=60) for _ in range(3)]
        await full()
        for guard in processes * 2:
            assert await guard.get_or_compute("k", compute) == 1
        for guard in processes * 2:
            with pytest.raises((LookupError, ComputeFailed)):
                await guard.get_or_compute("failing", fail)
    assert computed == 2


async def test_a_value_may_take_the_place_of_an_older_one(
    server: ValkeyServer, outside: redis.asyncio.Redis, sessions: Sessions, name: str, full: Any
) -> None:
    session, _ = sessions.open(server.url)
    await fill(session, name, b"older")
    await outside.persist(entry_keys(name)[0])
    await full()
    newer = b"n" * (POLICY.inline_bytes + 1)
    await fill(session, name, newer)
    reading = await session.read(name)
    assert reading is not None and reading.body == newer, "large, and there was one before"


async def test_a_failure_is_told_and_kept_or_every_stale_hit_would_ask_the_source_again(
    server: ValkeyServer, sessions: Sessions, name: str, full: Any
) -> None:
    (session, _), (other, heard) = sessions.open(server.url), sessions.open(server.url)
    granted = await grant(session, name)
    assert isinstance(await other.acquire(name, flight="other", policy=POLICY), Held)
    await full()
    await fail(session, name, granted)
    assert (await heard.message(name)).body == b"why"
    answer = await other.acquire(name, flight="other", policy=POLICY)
    assert isinstance(answer, FailedRecently) and answer.body == b"why"


async def test_fallbacks_are_still_counted(
    server: ValkeyServer, sessions: Sessions, name: str, full: Any
) -> None:
    session, _ = sessions.open(server.url)
    await full()
    assert isinstance(await session.fallback(name, flight="one", policy=POLICY), Granted)
    assert not isinstance(await session.fallback(name, flight="two", policy=POLICY), Granted)


class Source:
    """A computation that is held at a gate, of a value that a full server has no room for."""

    def __init__(self, size: int) -> None:
        self.gate = Gate()
        self.size = size

    async def __call__(self) -> str:
        await self.gate.hold()
        return "x" * self.size


async def fleet_waiting(
    guards: Guards, source: Source, theirs: Source, callers: int
) -> list[asyncio.Task[str]]:
    """One process computes, and all others, who have a source of their own, wait for it."""
    # What a full server does not store, it only tells those who wait. On a busy machine, one that asks again in that
    # moment may hear that nobody computes before it hears the value.
    patient = {"poll_interval": PATIENCE, "lease_ttl": PATIENCE, "wait_timeout": PATIENCE}
    first, *others = [guards.guard(**patient) for _ in range(callers)]
    calls = [asyncio.create_task(first.get_or_compute("k", source))]
    await source.gate.arrival()
    calls += [asyncio.create_task(guard.get_or_compute("k", theirs)) for guard in others]
    async with redis.asyncio.Redis.from_url(guards.url) as client:
        waiters = entry_keys(guards.name("k"))[4]
        async with asyncio.timeout(PATIENCE):
            while await client.scard(waiters) < callers - 1:  # type: ignore[misc]
                pass  # asked again at once: the answer is the wait
    return calls


async def test_all_who_wait_for_a_large_value_are_served_by_the_one_computation(
    server: ValkeyServer, namespace: str, full: Any
) -> None:
    async with Guards(server.url, namespace, deadline=LONG) as guards:
        await full()
        source = Source(512 * 1024)
        calls = await fleet_waiting(guards, source, source, 8)
        source.gate.open()
        assert {len(value) for value in await soon(asyncio.gather(*calls))} == {source.size}
        assert source.gate.entered == 1


async def test_where_that_would_be_too_much_for_the_server_they_compute_beside_one_another(
    server: ValkeyServer, namespace: str, full: Any
) -> None:
    async with Guards(server.url, namespace, deadline=LONG) as guards:
        await full()
        source, theirs = Source(WAKE_BYTES // 4), Source(WAKE_BYTES // 4)
        calls = await fleet_waiting(guards, source, theirs, 8)
        source.gate.open()
        for _ in range(7):
            await theirs.gate.arrival()
        assert theirs.gate.entered == 7, "none has come to an end: at once, and not one after the other"
        theirs.gate.open()
        await soon(asyncio.gather(*calls))
        assert (source.gate.entered, theirs.gate.entered) == (1, 7)


async def test_once_there_is_room_again_it_is_stored_and_found(
    server: ValkeyServer, outside: redis.asyncio.Redis, namespace: str, full: Any
) -> None:
    async with Guards(server.url, namespace, deadline=LONG) as guards:
        await full()
        source, theirs = Source(WAKE_BYTES // 4), Source(WAKE_BYTES // 4)
        calls = await fleet_waiting(guards, source, theirs, 8)
        source.gate.open()
        await theirs.gate.arrival()
        await outside.config_set("maxmemory", "0")
        theirs.gate.open()
        await soon(asyncio.gather(*calls))
        computed = theirs.gate.entered
        await soon(guards.guard().get_or_compute("k", theirs))
        assert theirs.gate.entered == computed
