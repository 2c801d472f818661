"""What a network, a middle box or a dying server does to a session, and what must not come of it."""

from __future__ import annotations

import asyncio

import pytest
import redis.asyncio
from redis.credentials import CredentialProvider

from bench.herd.valkey import ValkeyServer, free_port
from stampede_guard.core.scripts import Held
from stampede_guard.errors import StoreRefused, StoreUnavailable
from stampede_guard.stores.connections.wire import entry_keys
from tests.support.asking import POLICY, established, grant, publish
from tests.support.gate import until
from tests.support.listener import PATIENCE
from tests.support.proxy import FaultProxy
from tests.support.sessions import SHORT, Sessions, unavailable, until_in_flight, warm

BIG = b"\x00\xff" * 4_000_000


class TestLostConnections:
    async def test_a_reset_fails_what_was_pending_and_the_next_read_connects_again(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, listener = sessions.open(proxy.url)
        await warm(session, name)
        proxy.black_hole()
        reads = [session.read(f"{name}-{number}") for number in range(5)]
        await until_in_flight(session)
        proxy.cut()
        for outcome in await asyncio.gather(*reads, return_exceptions=True):
            assert isinstance(outcome, StoreUnavailable)
        proxy.heal()
        reading = await session.read(name)
        assert reading is not None and reading.body == b"body"
        assert listener.breaker == [] and not session.away

    async def test_a_reset_of_all_connections_at_once_is_no_outage(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, listener = sessions.open(proxy.url)
        await warm(session, name)
        proxy.black_hole()
        pending = [
            asyncio.ensure_future(session.renew(name, flight="holder", token=1, policy=POLICY)),
            asyncio.ensure_future(session.read(name)),
        ]
        await until(lambda: session._lane._pending and session._renewals._pending)
        assert proxy.cut() == 3
        for outcome in await asyncio.gather(*pending, return_exceptions=True):
            assert isinstance(outcome, StoreUnavailable)
        proxy.heal()
        assert await session.read(name) is not None
        assert listener.breaker == []

    async def test_idle_connections_that_the_server_closes_are_no_outage(
        self, server: ValkeyServer, outside: redis.asyncio.Redis, sessions: Sessions, name: str
    ) -> None:
        session, listener = sessions.open(server.url)
        await warm(session, name)
        for _ in range(3):
            await outside.client_kill_filter(_type="normal", skipme=True)
            await until(lambda: session._lane._connection is None and session._renewals._connection is None)
            assert await session.read(name) is not None
            await session.renew(name, flight="holder", token=1, policy=POLICY)
        assert listener.breaker == []

    async def test_a_lost_reply_to_acquire_is_asked_for_again_and_is_the_same(
        self, proxy: FaultProxy, outside: redis.asyncio.Redis, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(proxy.url)
        await warm(session, name + "-warm")
        proxy.lose_replies(b"EVALSHA")
        with pytest.raises(StoreUnavailable):
            await grant(session, name)
        token = int(await outside.hget(entry_keys(name)[3], "token"))
        granted = await grant(session, name)
        assert granted.token == token
        assert isinstance(await session.acquire(name, flight="other", policy=POLICY), Held)

    async def test_a_lost_reply_to_publish_is_asked_for_again_and_is_the_same(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(proxy.url)
        await warm(session, name + "-warm")
        granted = await grant(session, name)
        proxy.lose_replies(b"EVALSHA")
        with pytest.raises(StoreUnavailable):
            await publish(session, name, granted)
        assert await publish(session, name, granted)

    async def test_a_forgotten_flight_gives_back_what_it_may_have_got(
        self, proxy: FaultProxy, outside: redis.asyncio.Redis, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(proxy.url)
        other, heard = sessions.open(proxy.url)
        await warm(session, name + "-warm")
        proxy.lose_replies(b"EVALSHA")
        with pytest.raises(StoreUnavailable):
            await grant(session, name)
        assert isinstance(await other.acquire(name, flight="other", policy=POLICY), Held)
        session.forget(name, flight="holder")
        assert (await heard.message(name)).kind == "again"
        assert not await outside.exists(entry_keys(name)[3])

    async def test_the_next_one_after_a_reset_may_be_lost_too(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, listener = sessions.open(proxy.url)
        await warm(session, name)
        proxy.lose_replies(b"EVALSHA", count=2)
        await unavailable(session, name)
        await unavailable(session, name)
        assert listener.breaker == [], "connections were made and greeted: somebody is there"
        assert await session.read(name) is not None


class TestSilence:
    async def test_a_black_hole_opens_the_breaker_at_the_second_failure_and_the_probe_closes_it(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, listener = sessions.open(proxy.url, deadline=SHORT)
        await warm(session, name)
        proxy.black_hole()
        await unavailable(session, name)
        assert not session.away
        await unavailable(session, name)
        assert session.away
        proxy.heal()
        await listener.until(lambda heard: heard.breaker == [True, False])
        assert not session.away
        assert await session.read(name) is not None

    async def test_half_open_connections_cost_one_deadline_and_are_no_outage(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, listener = sessions.open(proxy.url, deadline=SHORT)
        await warm(session, name)
        assert proxy.half_open() == 3
        await unavailable(session, name)
        reading = await session.read(name)
        assert reading is not None and reading.body == b"body"
        assert listener.breaker == []

    async def test_a_late_answer_reaches_nobody(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(proxy.url, deadline=SHORT)
        await warm(session, name)
        proxy.black_hole()
        await unavailable(session, name)
        proxy.heal()
        assert await session.read(name + "-absent") is None
        reading = await session.read(name)
        assert reading is not None and reading.body == b"body"

    async def test_a_value_that_nobody_takes_does_not_hold_up_the_lane_for_ever(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(proxy.url, deadline=SHORT)
        await warm(session, name)
        granted = await grant(session, name + "-big")
        proxy.black_hole()
        # More than the sockets' buffers hold: the writer is stuck in the middle of it.
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(publish(session, name + "-big", granted, BIG), PATIENCE)
        proxy.heal()
        assert await asyncio.wait_for(session.read(name), PATIENCE) is not None

    async def test_what_waited_behind_it_goes_by_the_next_connection(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(proxy.url, deadline=SHORT)
        await warm(session, name)
        granted = await grant(session, name + "-big")
        proxy.black_hole()
        stuck = asyncio.ensure_future(publish(session, name + "-big", granted, BIG))
        await until(lambda: session._lane._pipe is not None and session._lane._pipe.paused)
        behind = session.read(name)
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(stuck, PATIENCE)
        proxy.heal()
        assert await asyncio.wait_for(behind, PATIENCE) is not None

    async def test_a_server_that_accepts_and_never_answers_is_away(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        proxy.black_hole()
        session, listener = sessions.open(proxy.url, deadline=SHORT)
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(grant(session, name), PATIENCE)
        await unavailable(session, name)
        assert listener.breaker == [True]
        proxy.heal()
        await listener.until(lambda heard: heard.breaker == [True, False])
        await grant(session, name)

    async def test_a_frozen_server_comes_back(
        self, own_valkey: ValkeyServer, sessions: Sessions, name: str
    ) -> None:
        session, listener = sessions.open(own_valkey.url, deadline=SHORT)
        await warm(session, name)
        own_valkey.pause()
        try:
            await unavailable(session, name)
            await unavailable(session, name)
        finally:
            own_valkey.resume()
        await listener.until(lambda heard: heard.breaker == [True, False])
        assert await session.read(name) is not None

    async def test_a_restarted_server_knows_no_script_and_no_subscription_and_works(
        self, own_valkey: ValkeyServer, sessions: Sessions, name: str
    ) -> None:
        session, listener = sessions.open(own_valkey.url)
        other, heard = sessions.open(own_valkey.url)
        await warm(session, name)
        await warm(other, name + "-other")
        own_valkey.restart(keep_data=False)
        await until(lambda: not session._inbox.confirmed_name and not other._inbox.confirmed_name)
        await listener.until(lambda one: one.gaps >= 3)
        await heard.until(lambda one: one.gaps >= 3)
        assert await session.read(name) is None
        granted = await grant(session, name)
        assert isinstance(await other.acquire(name, flight="other", policy=POLICY), Held)
        assert await publish(session, name, granted)
        assert (await heard.message(name)).token == granted.token


class TestNobodyThere:
    async def test_every_read_fails_and_none_waits_for_ever(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        await proxy.refuse()
        session, listener = sessions.open(proxy.url)
        for _ in range(3):
            await unavailable(session, name)
        with pytest.raises(StoreUnavailable):
            await asyncio.wait_for(grant(session, name), PATIENCE)
        assert listener.breaker == [True]
        await proxy.listen()
        await listener.until(lambda heard: heard.breaker == [True, False])
        await warm(session, name)

    async def test_whatever_a_credential_provider_raises_is_heard_and_not_the_end(
        self, server: ValkeyServer, outside: redis.asyncio.Redis, sessions: Sessions, name: str
    ) -> None:
        class Vault(CredentialProvider):
            sealed = True

            def get_credentials(self) -> tuple[str, str]:
                if self.sealed:
                    raise LookupError("sealed")
                return ("vaulted", "open")

        await outside.acl_setuser(
            "vaulted", enabled=True, passwords=["+open"], keys=["*"], channels=["*"], categories=["+@all"]
        )
        vault, sockets = Vault(), established(server.port)
        client = redis.asyncio.Redis(port=server.port, credential_provider=vault)
        session, listener = sessions.open(client)
        with pytest.raises(StoreUnavailable, match="sealed") as refused:
            await asyncio.wait_for(session.read(name), PATIENCE)
        # While somebody holds the error, and with it the frames in which the connection was made.
        await until(lambda: established(server.port) == sockets)
        del refused
        vault.sealed = False
        await grant(session, name)
        await listener.until(lambda heard: heard.gaps == 1)


class TestTheReason:
    async def test_who_is_away_is_told_with_what_it_failed_with(self, sessions: Sessions, name: str) -> None:
        session, listener = sessions.open(f"redis://127.0.0.1:{free_port()}")
        for _ in range(2):
            await unavailable(session, name)
        (why,) = listener.why
        assert "cannot be reached" in why and "Connect call failed" in why

    async def test_what_a_credential_provider_says_is_kept_out_of_it(
        self, server: ValkeyServer, sessions: Sessions, name: str
    ) -> None:
        class Vault(CredentialProvider):
            def get_credentials(self) -> tuple[str, str]:
                raise LookupError("no entry for s3cret")

        client = redis.asyncio.Redis(port=server.port, credential_provider=Vault())
        session, listener = sessions.open(client)
        for _ in range(2):
            await unavailable(session, name)
        assert listener.why == ["LookupError while connecting"]


class TestRefusals:
    async def test_a_wrong_password_is_a_refusal_and_no_outage(
        self, server: ValkeyServer, sessions: Sessions, name: str
    ) -> None:
        client = redis.asyncio.Redis(port=server.port, username="default", password="wrong")
        # A server without a password takes any; this user does not exist.
        client.connection_pool.connection_kwargs["username"] = "nobody"
        session, listener = sessions.open(client)
        for _ in range(3):
            with pytest.raises(StoreRefused):
                await session.read(name)
            with pytest.raises(StoreRefused):
                await grant(session, name)
        assert not session.away and listener.breaker == []

    async def test_a_server_that_comes_back_and_refuses_is_not_away(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        client = redis.asyncio.Redis(port=proxy.port, username="somebody", password="secret")
        await proxy.refuse()
        session, listener = sessions.open(client)
        await unavailable(session, name)
        await unavailable(session, name)
        assert session.away
        proxy.answer(b"AUTH", b"-WRONGPASS invalid username-password pair or user is disabled.\r\n")
        await proxy.listen()
        await listener.until(lambda heard: heard.breaker == [True, False])
        with pytest.raises(StoreRefused):
            await session.read(name)

    async def test_a_missing_permission_is_a_refusal(
        self, server: ValkeyServer, outside: redis.asyncio.Redis, sessions: Sessions, name: str
    ) -> None:
        await outside.acl_setuser("reader", enabled=True, nopass=True, keys=["*"], commands=["+get"])
        client = redis.asyncio.Redis(port=server.port, username="reader", password="x")
        session, listener = sessions.open(client)
        for _ in range(3):
            with pytest.raises(StoreRefused):
                await session.read(name)
        assert listener.breaker == []

    @pytest.mark.parametrize(
        "reply",
        [
            "LOADING Redis is loading the dataset in memory",
            "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.",
            "CLUSTERDOWN The cluster is down",
            "TRYAGAIN Multiple keys request during rehashing of slot",
        ],
    )
    async def test_a_server_that_cannot_serve_counts_as_away_until_it_can(
        self, proxy: FaultProxy, sessions: Sessions, name: str, reply: str
    ) -> None:
        session, listener = sessions.open(proxy.url)
        await warm(session, name)
        for command in (b"EVALSHA", b"EVAL"):
            proxy.answer(command, f"-{reply}\r\n".encode())
        before = proxy.accepted
        await unavailable(session, name)
        await unavailable(session, name)
        assert listener.breaker == [True]
        # The probe is answered too, and it is no more than an answer.
        await until(lambda: len(proxy.commands(b"EVAL")) > 0 or proxy.accepted > before + 2)
        assert session.away
        proxy.heal()
        await listener.until(lambda heard: heard.breaker == [True, False])
        assert await session.read(name) is not None

    async def test_a_demoted_master_is_left_and_not_away(
        self, own_valkey: ValkeyServer, sessions: Sessions, name: str
    ) -> None:
        async with FaultProxy(own_valkey.port) as proxy:
            session, listener = sessions.open(proxy.url)
            await warm(session, name)
            with own_valkey.client() as operator:
                operator.execute_command("REPLICAOF", "127.0.0.1", 1)
                before = proxy.accepted
                for _ in range(4):
                    with pytest.raises(StoreRefused) as refused:
                        await grant(session, name + "-new")
                    assert refused.value.may_pass
                assert proxy.accepted > before, "the name may lead elsewhere by now"
                assert await session.read(name) is not None and not session.away
                operator.execute_command("REPLICAOF", "NO", "ONE")
            await grant(session, name + "-new")
            assert listener.breaker == []

    async def test_a_server_that_is_back_as_a_replica_is_back(
        self, own_valkey: ValkeyServer, sessions: Sessions, name: str
    ) -> None:
        async with FaultProxy(own_valkey.port) as proxy:
            session, listener = sessions.open(proxy.url)
            await warm(session, name)
            await proxy.refuse()
            for _ in range(3):
                await unavailable(session, name)
            assert session.away
            with own_valkey.client() as operator:
                operator.execute_command("REPLICAOF", "127.0.0.1", 1)
            await proxy.listen()
            await listener.until(lambda heard: heard.breaker == [True, False])
            assert await session.read(name) is not None
