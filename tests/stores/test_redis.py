"""What is particular to Redis and Valkey: how much is sent, through which connections, and a server with limits."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis.asyncio
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import Sentinel
from redis.backoff import ExponentialBackoff

from bench.herd.valkey import ValkeyServer
from stampede_guard.core.scripts import Granted, Held
from stampede_guard.errors import StoreRefused
from stampede_guard.stores.connections.wire import entry_keys, value_bytes
from stampede_guard.stores.redis import RedisStore
from tests.support.asking import POLICY, fill, grant, publish
from tests.support.backends import PARTS
from tests.support.heap import collect
from tests.support.listener import PATIENCE
from tests.support.proxy import FaultProxy
from tests.support.sessions import LONG, Sessions
from tests.support.titles import titled


class TestHowMuchIsSent:
    async def test_reads_of_one_tick_are_one_command(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(proxy.url)
        await session.read(name)
        before = len(proxy.commands(b"EVALSHA"))
        same = [session.read(name) for _ in range(50)]
        others = [session.read(f"{name}-{number}") for number in range(50)]
        await asyncio.gather(*same, *others)
        (command,) = proxy.commands(b"EVALSHA")[before:]
        assert int(command.parts[2]) == 51
        await session.read(name)
        assert len(proxy.commands(b"EVALSHA")) == before + 2

    async def test_very_many_reads_are_several_commands_so_that_none_holds_up_the_server(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(proxy.url)
        await session.read(name)
        before = len(proxy.commands(b"EVALSHA"))
        await asyncio.gather(*[session.read(f"{name}-{number}") for number in range(1_100)])
        counts = [int(command.parts[2]) for command in proxy.commands(b"EVALSHA")[before:]]
        assert sum(counts) == 1_100 and len(counts) == 3

    async def test_a_cancelled_reader_leaves_the_read_to_the_others(
        self, proxy: FaultProxy, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(proxy.url)
        await fill(session, name)
        readers = [session.read(name) for _ in range(10)]
        for reader in readers[:9]:
            reader.cancel()
        reading = await readers[9]
        assert reading is not None and reading.body == b"body"

    async def test_each_step_is_one_command(self, proxy: FaultProxy, sessions: Sessions, name: str) -> None:
        session, _ = sessions.open(proxy.url)
        for _ in range(2):
            before = len(proxy.commands(b"EVALSHA"))
            granted = await grant(session, name)
            await session.renew(name, flight="holder", token=granted.token, policy=POLICY)
            await publish(session, name, granted)
            await session.invalidate(name, policy=POLICY)
            await session.release(name, flight="holder")
            await session.fallback(name, flight="holder", policy=POLICY)
        assert len(proxy.commands(b"EVALSHA")) == before + 6

    async def test_scripts_that_the_server_has_forgotten_are_sent_again(
        self, server: ValkeyServer, outside: redis.asyncio.Redis, sessions: Sessions, name: str
    ) -> None:
        session, listener = sessions.open(server.url)
        await fill(session, name)
        for _ in range(3):
            await outside.script_flush()
            reads = [session.read(name), session.read(name)]
            grants = await asyncio.gather(*[grant(session, f"{name}-{number}") for number in range(3)])
            assert len({granted.token for granted in grants}) == 3
            for reading in await asyncio.gather(*reads):
                assert reading is not None and reading.body == b"body"
            await asyncio.gather(
                *[session.release(f"{name}-{number}", flight="holder") for number in range(3)]
            )
        assert listener.breaker == []

    async def test_a_large_value_goes_through_and_others_with_it(
        self, server: ValkeyServer, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(server.url)
        await fill(session, name + "-small")
        body = bytes(range(256)) * 4 * 8_192
        granted = await grant(session, name)
        stored, reading, renewed = await asyncio.gather(
            publish(session, name, granted, body),
            session.read(name + "-small"),
            session.renew(name, flight="nobody", token=1, policy=POLICY),
        )
        assert stored and not renewed and reading is not None and reading.body == b"body"
        back, small = await asyncio.gather(session.read(name), session.read(name + "-small"))
        assert back is not None and back.body == body
        assert small is not None and small.body == b"body"


class TestWhoseConnections:
    async def test_an_exhausted_pool_of_the_user_delays_nobody(
        self, server: ValkeyServer, sessions: Sessions, name: str
    ) -> None:
        pool = redis.asyncio.BlockingConnectionPool.from_url(server.url, max_connections=1, timeout=None)
        taken = await pool.get_connection()
        try:
            session, _ = sessions.open(redis.asyncio.Redis(connection_pool=pool))
            await asyncio.wait_for(fill(session, name), PATIENCE)
            assert await asyncio.wait_for(session.read(name), PATIENCE) is not None
        finally:
            await pool.release(taken)
            await pool.disconnect()

    @pytest.mark.parametrize(
        "settings",
        [
            {"decode_responses": True},
            {"protocol": 3},
            {"protocol": 3, "decode_responses": True},
            {"health_check_interval": 1},
            {"socket_timeout": 0.000_001},
            {"retry": Retry(ExponentialBackoff(), 5)},
            {"single_connection_client": True},
            {"client_name": "somebody", "db": 3},
            {"encoding": "utf-16"},
            {"driver_info": None},
        ],
        ids=titled,
    )
    async def test_settings_of_the_client_that_are_ours_are_overruled(
        self, server: ValkeyServer, sessions: Sessions, name: str, settings: dict[str, Any]
    ) -> None:
        session, listener = sessions.open(redis.asyncio.Redis(port=server.port, **settings))
        other, heard = sessions.open(redis.asyncio.Redis(port=server.port, db=settings.get("db", 0)))
        granted = await grant(session, name)
        assert isinstance(await other.acquire(name, flight="other", policy=POLICY), Held)
        assert await session.renew(name, flight="holder", token=granted.token, policy=POLICY)
        assert await publish(session, name, granted, b"\xff\x00")
        message = await heard.message(name)
        assert message.reading is not None and message.reading.body == b"\xff\x00"
        reading = await session.read(name)
        assert reading is not None and reading.body == b"\xff\x00"
        granted = await grant(other, name + "-other")
        assert isinstance(await session.acquire(name + "-other", flight="f", policy=POLICY), Held)
        await publish(other, name + "-other", granted)
        assert (await listener.message(name + "-other")).token == granted.token

    async def test_a_unix_socket_is_as_good(self, sessions: Sessions, name: str, tmp_path: Any) -> None:
        path = str(tmp_path / "socket")
        with ValkeyServer(options={"unixsocket": path}):
            session, _ = sessions.open(redis.asyncio.Redis(unix_socket_path=path))
            await fill(session, name)
            assert await session.read(name) is not None
            await sessions.aclose()

    async def test_the_client_is_kept_as_long_as_its_settings(self) -> None:
        client = Sentinel([("127.0.0.1", 1)]).master_for("primary")
        store = RedisStore(client)
        del client
        collect()
        pool: Any = store.connect().connection_pool  # type: ignore[attr-defined]
        assert pool.is_master, "a pool that is gone raises ReferenceError"


class TestKeysThatAreNotOurs:
    @pytest.mark.parametrize("part", PARTS)
    async def test_a_key_of_the_wrong_type_heals(
        self, server: ValkeyServer, outside: redis.asyncio.Redis, sessions: Sessions, name: str, part: Any
    ) -> None:
        (session, _), (other, heard) = sessions.open(server.url), sessions.open(server.url)
        key = entry_keys(name)[PARTS.index(part)]

        async def spoil() -> None:
            await outside.delete(key)
            await (outside.hset(key, "a", "b") if part in ("value", "failure") else outside.set(key, "x"))

        await spoil()
        assert await session.read(name) is None
        await session.invalidate(name, policy=POLICY)
        await spoil()
        assert isinstance(await session.fallback(name, flight="beside", policy=POLICY), Granted)
        await spoil()
        granted = await grant(session, name)
        await spoil()
        answer = await other.acquire(name, flight="other", policy=POLICY)
        assert isinstance(answer, Granted if part == "lease" else Held)
        if isinstance(answer, Held) and part != "record":
            assert await publish(session, name, granted)
            assert (await heard.message(name)).token == granted.token
            assert await session.read(name) is not None

    @pytest.mark.parametrize(
        "stored",
        [
            b"",
            b"SG1",
            b"SG3" + value_bytes(b"x", token=9, total_ms=9_000, stale_ms=0)[3:],
            b"SG1" + value_bytes(b"", token=9, total_ms=9_000, stale_ms=0)[3:42],
            value_bytes(b"", token=9, total_ms=9_000, stale_ms=0)[:-1],
            value_bytes(b"x", token=9, total_ms=9_000, stale_ms=0).replace(b"9", b" "),
            b"SG1" + b"-" * 60,
            b"SG1" + b"0x" * 30,
            b"SG1" + b"1e3_" * 30,
        ],
    )
    async def test_bytes_that_are_no_value_are_no_value(
        self,
        server: ValkeyServer,
        outside: redis.asyncio.Redis,
        sessions: Sessions,
        name: str,
        stored: bytes,
    ) -> None:
        session, _ = sessions.open(server.url)
        await outside.set(entry_keys(name)[0], stored, px=100)
        await outside.set(entry_keys(name)[1], stored, px=60_000)
        assert await session.read(name) is None
        await fill(session, name)

    async def test_a_value_that_an_operator_made_eternal_is_stale(
        self, server: ValkeyServer, outside: redis.asyncio.Redis, sessions: Sessions, name: str
    ) -> None:
        session, _ = sessions.open(server.url)
        await fill(session, name)
        await outside.persist(entry_keys(name)[0])
        reading = await session.read(name)
        assert reading is not None and reading.remaining_ms == -1
        granted = await grant(session, name)
        assert await publish(session, name, granted)
        assert await outside.pttl(entry_keys(name)[0]) > 0


class TestPermissions:
    @pytest.fixture
    async def deaf(self, server: ValkeyServer, outside: redis.asyncio.Redis) -> redis.asyncio.Redis:
        """A client that may not use pub/sub, nor ask about it."""
        await outside.execute_command(
            "ACL", "SETUSER", "deaf", "on", "nopass", "~*", "&*", "+@all", "-@pubsub", "-pubsub"
        )
        return redis.asyncio.Redis(port=server.port, username="deaf", password="x")

    async def test_without_pubsub_everything_works_and_nobody_is_woken(
        self, outside: redis.asyncio.Redis, deaf: redis.asyncio.Redis, sessions: Sessions, name: str
    ) -> None:
        session, listener = sessions.open(deaf)
        granted = await grant(session, name)
        assert await outside.hget(entry_keys(name)[3], "inbox") == b""
        assert isinstance(await session.acquire(name, flight="other", policy=POLICY), Held)
        assert await session.renew(name, flight="holder", token=granted.token, policy=POLICY)
        assert await publish(session, name, granted)
        assert await session.read(name) is not None
        assert (listener.gaps, listener.breaker) == (0, [])

    async def test_where_liveness_cannot_be_asked_the_deadline_decides(
        self,
        server: ValkeyServer,
        outside: redis.asyncio.Redis,
        deaf: redis.asyncio.Redis,
        sessions: Sessions,
        name: str,
    ) -> None:
        (holder, _), (waiter, _) = sessions.open(server.url), sessions.open(deaf)
        await grant(holder, name)
        await holder.aclose()
        lease = entry_keys(name)[3]
        for _ in range(3):
            answer = await waiter.acquire(name, flight="waiter", policy=POLICY)
            assert isinstance(answer, Held) and not answer.suspect
            assert await outside.hget(lease, "missing") is None
        await outside.pexpire(lease, 1)
        async with asyncio.timeout(PATIENCE):
            while await outside.exists(lease):  # noqa: ASYNC110 - no event tells of it
                await asyncio.sleep(0.001)
        await grant(waiter, name, "waiter")

    async def test_a_user_who_may_not_run_scripts_is_told_so(
        self, server: ValkeyServer, outside: redis.asyncio.Redis, sessions: Sessions, name: str
    ) -> None:
        await outside.execute_command(
            "ACL", "SETUSER", "mute", "on", "nopass", "~*", "&*", "+@all", "-@scripting"
        )
        client = redis.asyncio.Redis(port=server.port, username="mute", password="x")
        session, listener = sessions.open(client, deadline=LONG)
        with pytest.raises(StoreRefused, match="permission"):
            await grant(session, name)
        assert listener.breaker == []
