"""Invalidations that the store does not carry out at once: refused for good, they are told; otherwise they are kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from stampede_guard import StampedeGuard
from stampede_guard.engine.away.pending import AT_ONCE, PendingInvalidations
from stampede_guard.errors import StoreError, StoreRefused, StoreUnavailable
from stampede_guard.policy import Policy
from tests.support.gate import soon, until
from tests.support.guards import Guards
from tests.support.inside import pending_of
from tests.support.proxy import FaultProxy

LONG = Policy(ttl=600)


class Source:
    """What the database has, and how often it was asked."""

    def __init__(self) -> None:
        self.now = "before"
        self.asked = 0

    def __cache_key__(self) -> str:
        return "the database"

    async def read(self) -> str:
        self.asked += 1
        return self.now


@pytest.fixture
async def operator(own_valkey: ValkeyServer) -> AsyncIterator[redis.asyncio.Redis]:
    async with redis.asyncio.Redis.from_url(own_valkey.url) as client:
        yield client


EVERYTHING = ("reset", "on", "nopass", "~*", "&*", "+@all")


async def may(operator: redis.asyncio.Redis, *rights: str) -> None:
    """What the guest may do from now on."""
    await operator.execute_command("ACL", "SETUSER", "guest", *rights)


# --- what is told to the caller ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rights", [["resetkeys", "~other:*"], ["-del"], ["-evalsha"]], ids=["the key", "a command", "scripts"]
)
async def test_an_invalidation_that_this_client_may_not_do_is_an_error_and_does_not_wait(
    own_valkey: ValkeyServer, operator: redis.asyncio.Redis, namespace: str, rights: list[str]
) -> None:
    await may(operator, *EVERYTHING, *rights)
    url = own_valkey.url.replace("//", "//guest:x@")
    async with StampedeGuard.from_url(url, namespace=namespace) as guard:
        with pytest.raises(StoreRefused, match=r"permission|can't run"):
            await soon(guard.invalidate("k"))
        assert not guard.engine.runtime().away and not pending_of(guard.engine.runtime())


async def test_a_refresh_serves_its_value_although_the_old_one_may_not_be_dropped(
    own_valkey: ValkeyServer, operator: redis.asyncio.Redis, namespace: str
) -> None:
    source = Source()
    await may(operator, *EVERYTHING)
    url = own_valkey.url.replace("//", "//guest:x@")
    async with StampedeGuard.from_url(url, namespace=namespace) as guard:
        quality = guard.locked_cache(name="quality", ttl=600)(source.read)
        assert await quality() == "before"
        source.now = "after"
        await may(operator, "-evalsha")
        assert await soon(quality.refresh()) == "after"
        # It is not told to anybody, so it waits for better times.
        await may(operator, "+evalsha")
        await until(lambda: not guard.engine.runtime().away)
        assert await quality() == "after"


# --- what waits -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trouble", ["read-only replica", "too few replicas"])
async def test_what_a_server_cannot_write_for_now_waits_and_is_applied_when_it_can(
    own_valkey: ValkeyServer, operator: redis.asyncio.Redis, namespace: str, trouble: str
) -> None:
    source = Source()
    async with Guards(own_valkey.url, namespace) as guards:
        here, there = guards.guard(ttl=600), guards.guard(ttl=600)
        assert await here.get_or_compute("k", source.read) == "before"
        if trouble == "read-only replica":
            await operator.execute_command("REPLICAOF", "127.0.0.1", 1)
        else:
            await operator.config_set("min-replicas-to-write", 1)
        source.now = "after"
        assert await soon(here.invalidate("k")) == "pending"
        assert await soon(here.get_or_compute("k", source.read)) == "after", "not what the server still has"
        if trouble == "read-only replica":
            await operator.execute_command("REPLICAOF", "NO", "ONE")
        else:
            await operator.config_set("min-replicas-to-write", 0)
        await until(lambda: not here.engine.runtime().away)
        assert not pending_of(here.engine.runtime())
        assert await soon(there.get_or_compute("k", source.read)) == "after"


@pytest.mark.parametrize(
    "reply",
    [
        "LOADING Redis is loading the dataset in memory",
        "MISCONF Redis is configured to save RDB snapshots, but it is currently unable to persist to disk.",
    ],
)
async def test_a_refusal_that_may_pass_is_no_error_for_who_invalidates(
    own_valkey: ValkeyServer, namespace: str, reply: str
) -> None:
    source = Source()
    async with (
        FaultProxy(own_valkey.port) as proxy,
        StampedeGuard.from_url(proxy.url, namespace=namespace, policy=LONG) as here,
        StampedeGuard.from_url(own_valkey.url, namespace=namespace, policy=LONG) as there,
    ):
        assert await here.get_or_compute("k", source.read) == "before"
        proxy.answer(b"EVALSHA", f"-{reply}\r\n".encode())
        source.now = "after"
        assert await soon(here.invalidate("k")) == "pending"
        proxy.heal()
        await until(lambda: not here.engine.runtime().away)
        assert await soon(there.get_or_compute("k", source.read)) == "after"


async def test_what_waited_and_is_refused_then_goes_on_waiting_and_is_told_once(
    own_valkey: ValkeyServer,
    operator: redis.asyncio.Redis,
    namespace: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    source = Source()
    await may(operator, *EVERYTHING)
    async with FaultProxy(own_valkey.port) as proxy:
        url = proxy.url.replace("//", "//guest:x@")
        async with StampedeGuard.from_url(url, namespace=namespace) as guard:
            assert await guard.get_or_compute("k", source.read) == "before"
            await proxy.refuse()
            assert await soon(guard.invalidate("k")) == "pending"
            await until(lambda: guard.engine.runtime().session.away)
            source.now = "after"
            await may(operator, "-del")
            await proxy.listen()
            refusals = "the store refuses an invalidation"
            await until(lambda: refusals in caplog.text)
            tries = len(proxy.commands(b"EVALSHA"))
            await until(lambda: len(proxy.commands(b"EVALSHA")) > tries + 2)
            assert caplog.text.count(refusals) == 1
            assert await soon(guard.get_or_compute("k", source.read)) == "after"
            await may(operator, "+del")
            await until(lambda: not guard.engine.runtime().away)


# --- how they are applied ---------------------------------------------------------------------------------


class Moody:
    """A session whose invalidations fail as long as `errors` has one for the name; `asked` is in order."""

    def __init__(self) -> None:
        self.away: set[str] = set()
        self.errors: dict[str, list[StoreError]] = {}
        self.asked: list[str] = []

    def away_for(self, name: str) -> bool:
        return name in self.away

    async def invalidate(self, name: str, *, policy: Policy) -> int:
        self.asked.append(name)
        await asyncio.sleep(0)
        if self.errors.get(name):
            raise self.errors[name].pop()
        return 7


def waiting(session: Moody, names: list[str]) -> tuple[PendingInvalidations, list[str]]:
    applied: list[str] = []
    pending = PendingInvalidations(
        session,  # type: ignore[arg-type]
        applied=lambda name, fence: applied.append(name),
    )
    for name in names:
        pending.add(name, LONG)
    return pending, applied


async def test_many_are_applied_side_by_side_each_once_and_none_is_left() -> None:
    names = [f"k{number}" for number in range(2 * AT_ONCE + 50)]
    session = Moody()
    pending, applied = waiting(session, names)
    pending.apply()
    pending.apply()
    assert pending.task is not None
    await soon(pending.task)
    assert session.asked == names and sorted(applied) == sorted(names) and len(pending) == 0


async def test_what_is_refused_does_not_hold_up_the_others() -> None:
    stubborn = [f"stubborn{number}" for number in range(AT_ONCE)]
    session = Moody()
    session.errors = {name: [StoreRefused("no"), StoreUnavailable("gone")] for name in stubborn}
    pending, applied = waiting(session, [*stubborn, "last"])
    pending.apply()
    assert pending.task is not None
    await soon(pending.task)
    assert applied[0] == "last" and len(applied) == AT_ONCE + 1


async def test_those_whose_server_is_away_stay_until_it_is_back() -> None:
    session = Moody()
    session.away = {"there"}
    pending, applied = waiting(session, ["there", "here"])
    pending.apply()
    assert pending.task is not None
    await soon(pending.task)
    assert (applied, len(pending), session.asked) == (["here"], 1, ["here"])
    session.away.clear()
    pending.apply()
    await soon(pending.task)
    assert applied == ["here", "there"]


async def test_the_oldest_is_given_up_with_a_word_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("stampede_guard.engine.away.pending.MOST", 2)
    with caplog.at_level(logging.ERROR):
        pending, _ = waiting(Moody(), ["one", "two", "one", "three"])
    assert "two" not in pending and {"one", "three"} == set(pending._waiting)
    assert "given up" in caplog.text


async def test_one_that_is_given_up_on_its_turn_takes_no_other_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("stampede_guard.engine.away.pending.MOST", 2)
    pending, applied = waiting(Moody(), ["one", "two"])
    await asyncio.sleep(0)  # their turns have been given out, and none of them has begun
    pending.add("three", LONG)
    assert pending.task is not None
    await soon(pending.task)
    assert sorted(applied) == ["three", "two"]
