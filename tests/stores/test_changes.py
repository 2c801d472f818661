"""The channel of changes: who keeps copies hears in time what has become of their entries, or hears of a gap."""

from __future__ import annotations

import logging

import pytest
import redis.asyncio

from stampede_guard.core.scripts import Granted, Held
from stampede_guard.stores.connections.wire import changes_channel
from stampede_guard.stores.protocol import Session
from tests.support.asking import POLICY, fill, grant, publish
from tests.support.backends import Backend
from tests.support.gate import until
from tests.support.proxy import FaultProxy
from tests.support.sessions import Sessions


async def watching(session: Session, name: str) -> None:
    await until(lambda: session.hears_changes(name))


async def refresh(session: Session, name: str) -> Granted:
    """A newer value, as a refresh stores it."""
    reading = await session.read(name)
    newer = reading.token if reading is not None else 0
    granted = await session.acquire(name, flight="holder", policy=POLICY, newer_than=newer)
    assert isinstance(granted, Granted)
    assert await publish(session, name, granted)
    return granted


class TestChanges:
    async def test_who_watches_hears_of_an_invalidation_and_of_its_fence(
        self, backend: Backend, name: str
    ) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        await watching(other, name)
        await fill(one, name)
        fence = await one.invalidate(name, policy=POLICY)
        await heard.until(lambda it: bool(it.changes))
        assert heard.changes == [(name, fence)], "and not of a value where there was none"

    async def test_also_of_an_entry_that_is_not_there_any_more(self, backend: Backend, name: str) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        await watching(other, name)
        fence = await one.invalidate(name, policy=POLICY)
        await heard.until(lambda it: bool(it.changes))
        assert heard.changes == [(name, fence)]

    async def test_a_value_in_the_place_of_a_fresh_one_is_a_change(self, backend: Backend, name: str) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        await watching(other, name)
        await fill(one, name)
        granted = await refresh(one, name)
        await heard.until(lambda it: bool(it.changes))
        assert heard.changes == [(name, granted.token)]

    async def test_a_value_in_the_place_of_a_stale_one_is_none(self, backend: Backend, name: str) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        await watching(other, name)
        await fill(one, name)
        await backend.age(name, 20.5)
        await fill(one, name)
        fence = await one.invalidate(name, policy=POLICY)
        await heard.until(lambda it: bool(it.changes))
        assert heard.changes == [(name, fence)]

    async def test_a_value_that_is_refused_is_none(self, backend: Backend, name: str) -> None:
        (one, _), (other, heard) = backend.open(), backend.open()
        late = await grant(one, name, "late")
        await other.invalidate(name, policy=POLICY)
        await one.release(name, flight="late")
        await fill(one, name)
        await watching(other, name)
        assert not await publish(one, name, late, flight="late")
        fence = await one.invalidate(name, policy=POLICY)
        await heard.until(lambda it: bool(it.changes))
        assert heard.changes == [(name, fence)]

    async def test_who_does_not_watch_is_told_nothing(self, backend: Backend, name: str) -> None:
        (one, _), (other, heard), (third, last) = backend.open(), backend.open(), backend.open()
        assert isinstance(await one.acquire(name, flight="holder", policy=POLICY), Granted)
        assert isinstance(await other.acquire(name, flight="waits", policy=POLICY), Held)
        await watching(third, name)
        await one.invalidate(name, policy=POLICY)
        await last.until(lambda it: bool(it.changes))
        assert (await heard.message(name)).kind == "again"
        assert heard.changes == []

    async def test_a_closed_session_hears_nothing(self, backend: Backend, name: str) -> None:
        session, _ = backend.open()
        await watching(session, name)
        await session.aclose()
        assert not session.hears_changes(name)


class TestGaps:
    async def test_a_lost_subscription_is_a_gap_and_nothing_is_heard_until_it_is_back(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        (one, _), (other, heard) = sessions.open(proxy.url), sessions.open(proxy.url)
        await watching(other, name)
        gaps = heard.gaps
        proxy.answer(b"SUBSCRIBE", b"-ERR not now\r\n")
        proxy.cut(lambda link: link.sent(b"SUBSCRIBE"))
        await heard.until(lambda it: it.gaps > gaps)
        assert not other.hears_changes(name)
        proxy.heal()
        await watching(other, name)
        fence = await one.invalidate(name, policy=POLICY)
        await heard.until(lambda it: bool(it.changes))
        assert heard.changes == [(name, fence)]

    async def test_a_subscription_that_was_killed_at_the_server_is_one(
        self, outside: redis.asyncio.Redis, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, heard = sessions.open(proxy.url)
        await watching(session, name)
        gaps = heard.gaps
        await outside.client_kill_filter(_type="pubsub")
        await heard.until(lambda it: it.gaps > gaps)
        await watching(session, name)

    async def test_another_acknowledgement_of_the_channel_is_one(
        self, outside: redis.asyncio.Redis, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, heard = sessions.open(proxy.url)
        await watching(session, name)
        gaps = heard.gaps
        connection = session._inbox._connection
        assert connection is not None
        await connection.send_command("SUBSCRIBE", changes_channel(name))
        await heard.until(lambda it: it.gaps == gaps + 1)

    async def test_an_inbox_has_one_channel_and_says_so_of_others(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(proxy.url)
        await watching(session, name)
        assert session.hears_changes(name + "2")
        assert not session.hears_changes("other:entry")


async def test_without_the_right_to_the_channel_wake_ups_go_on(
    outside: redis.asyncio.Redis,
    proxy: FaultProxy,
    sessions: Sessions,
    name: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    rights = ("reset", "on", ">word", "~*", "&stampede_guard:inbox:*", "+@all")
    await outside.execute_command("ACL", "SETUSER", "half", *rights)
    with caplog.at_level(logging.WARNING, "stampede_guard"):
        session, heard = sessions.open(proxy.url.replace("://", "://half:word@"))
        other, _ = sessions.open(proxy.url)
        granted = await grant(other, name)
        assert not session.hears_changes(name)
        await until(lambda: "l1_ttl has no effect" in caplog.text)
    assert isinstance(await session.acquire(name, flight="waits", policy=POLICY), Held)
    assert await publish(other, name, granted)
    assert (await heard.message(name)).token == granted.token
    assert not session.hears_changes(name)
    assert caplog.text.count("l1_ttl") == 1 and heard.gaps == 1


def test_a_namespace_has_a_channel_of_its_own_by_its_first_part() -> None:
    assert changes_channel("shop:key") == b"stampede_guard:changes:shop"
    assert changes_channel("shop:eu:key") == b"stampede_guard:changes:shop"
