"""The subscription of a session: its gaps are told, and its name is a sign of life only while it is confirmed."""

from __future__ import annotations

import asyncio
import inspect

import pytest
import redis.asyncio

from stampede_guard.core.scripts import Held, Message
from stampede_guard.stores.connections.subscription import subscription_on
from stampede_guard.stores.connections.wire import entry_keys
from tests.support.asking import POLICY, grant, publish
from tests.support.gate import until
from tests.support.proxy import FaultProxy
from tests.support.sessions import SHORT, Sessions


class TestInbox:
    async def test_a_killed_subscription_is_a_gap_and_so_is_its_return(
        self, proxy: FaultProxy, outside: redis.asyncio.Redis, sessions: Sessions, name: str
    ) -> None:
        session, listener = sessions.open(proxy.url)
        granted = await grant(session, name)
        lease = entry_keys(name)[3]
        inbox = await outside.hget(lease, "inbox")
        assert inbox and listener.gaps == 1
        proxy.answer(b"SUBSCRIBE", b"-ERR not now\r\n")
        assert proxy.cut(lambda link: link.sent(b"SUBSCRIBE")) == 1
        await listener.until(lambda heard: heard.gaps == 2)
        assert await session.renew(name, flight="holder", token=granted.token, policy=POLICY)
        assert await outside.hget(lease, "inbox") == b"", "an unconfirmed inbox is no sign of life"
        proxy.heal()
        await listener.until(lambda heard: heard.gaps == 3)
        assert await session.renew(name, flight="holder", token=granted.token, policy=POLICY)
        assert await outside.hget(lease, "inbox") == inbox
        assert listener.breaker == []

    async def test_messages_come_again_after_a_gap(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        (one, _), (other, heard) = sessions.open(proxy.url), sessions.open(proxy.url)
        granted = await grant(one, name)
        assert isinstance(await other.acquire(name, flight="other", policy=POLICY), Held)
        proxy.cut(lambda link: link.sent(b"SUBSCRIBE"))
        await heard.until(lambda it: it.gaps == 3)
        assert await publish(one, name, granted)
        assert (await heard.message(name)).token == granted.token

    async def test_a_message_is_passed_on_in_the_turn_of_the_event_loop_in_which_it_arrives(
        self, valkey_url: str, sessions: Sessions, name: str
    ) -> None:
        session, listener = sessions.open(valkey_url)
        await grant(session, name)
        inbox = session._inbox
        assert inbox._connection is not None and inbox._connection._writer is not None
        protocol = inbox._connection._writer.transport.get_protocol()
        body = b"again\n7\n%d\n%s" % (len(name), name.encode())
        parts = (b"message", inbox.confirmed_name.encode(), body)
        data = b"*3\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)
        protocol.data_received(data[:40])
        assert not listener.messages
        protocol.data_received(data[40:])
        assert listener.messages == [(name, Message("again", 7))]

    async def test_a_half_open_subscription_is_found_out(
        self, proxy: FaultProxy, sessions: Sessions, name: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("stampede_guard.stores.connections.inbox.QUIET_SECONDS", 0.05)
        session, listener = sessions.open(proxy.url, deadline=SHORT)
        await grant(session, name)
        await until(lambda: len(proxy.commands(b"PING")) >= 2)
        assert listener.gaps == 1, "silence that answers is no gap"
        proxy.lose_replies(b"PING", fate="lose")
        await listener.until(lambda heard: heard.gaps >= 3)


async def test_a_connection_that_has_ended_already_is_left_to_its_reader(valkey_url: str) -> None:
    client = redis.asyncio.Redis.from_url(valkey_url)
    connection = client.connection_pool.make_connection()
    await connection.connect()
    try:
        # A server may end it together with its last answer. Nobody would tell a new reader of it.
        connection._reader.feed_eof()
        assert subscription_on(connection, print, quiet=5, deadline=1) is None
    finally:
        await connection.disconnect()
        await client.aclose()


async def test_a_subscription_that_the_garbage_collector_ends_does_not_go_on(
    valkey_url: str, sessions: Sessions, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    session, _ = sessions.open(valkey_url)
    await grant(session, name)

    async def subscribe(connection: object) -> None:
        try:
            await asyncio.Event().wait()
        except GeneratorExit:
            # As clean-up code of other libraries does, which finds no event loop any more.
            raise RuntimeError("no running event loop") from None

    monkeypatch.setattr(session._inbox, "_subscribe", subscribe)
    running = session._inbox._run()
    running.send(None)
    # "coroutine ignored GeneratorExit" if it sleeps, to connect again. What it raises would be printed.
    running.close()
    assert inspect.getcoroutinestate(running) == inspect.CORO_CLOSED
