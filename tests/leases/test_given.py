"""Leases over what a user has already: a client of Redis, or a function that connects to PostgreSQL."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
import redis
import redis.asyncio
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.sentinel import Sentinel
from redis.credentials import UsernamePasswordCredentialProvider

from bench.herd.cluster import ValkeyCluster, ValkeySentinel
from bench.herd.valkey import ValkeyServer
from stampede_guard.errors import LeaseTaken, Misuse, StoreUnavailable
from stampede_guard.leases import Leases, PostgresLeases, RedisLeases
from stampede_guard.stores.redis import RedisStore

PATIENCE = 60.0


async def works(leases: Leases, other: Leases) -> None:
    """A lease is held, refused to another, given back, and had by the other."""
    async with leases.hold("n", request_timeout=3) as lease:
        await lease.check()
        with pytest.raises(LeaseTaken):
            async with other.hold("n", wait=0):
                raise AssertionError
    async with other.hold("n", wait=PATIENCE) as after:
        assert after.token > lease.token


class TestClient:
    @pytest.fixture
    async def client(self, own_valkey: ValkeyServer) -> AsyncIterator[redis.asyncio.Redis]:
        """One that gets in by a credential provider only, and has one connection for all."""
        with own_valkey.client() as admin:
            admin.execute_command("ACL", "SETUSER", "shop", "on", ">secret", "~*", "&*", "+@all")
            admin.execute_command("ACL", "SETUSER", "default", "off")
        made = redis.asyncio.Redis(
            host="127.0.0.1",
            port=own_valkey.port,
            credential_provider=UsernamePasswordCredentialProvider("shop", "secret"),
            max_connections=1,
            decode_responses=True,
        )
        yield made
        await made.execute_command("ACL", "SETUSER", "default", "on")
        await made.aclose()

    async def test_its_settings_are_lent_and_neither_its_connections_nor_its_life(
        self, client: redis.asyncio.Redis, namespace: str
    ) -> None:
        made = [RedisLeases.from_client(client, namespace=namespace, restart="trust") for _ in range(2)]
        async with client.pubsub() as taken:
            # The only connection that it has.
            await taken.subscribe("news")
            async with asyncio.timeout(PATIENCE):
                await works(*made)
        for leases in made:
            await leases.aclose()
        assert await client.ping()

    async def test_each_event_loop_has_connections_of_its_own(
        self, client: redis.asyncio.Redis, namespace: str
    ) -> None:
        leases = RedisLeases.from_client(client, namespace=namespace, restart="trust", label="many")

        def plain() -> int:
            with leases.hold("n", wait=PATIENCE) as lease:
                return lease.token

        async with leases.hold("n") as lease:
            waiting = asyncio.create_task(asyncio.to_thread(plain))
            await asyncio.sleep(0)
        assert await waiting > lease.token
        await leases.aclose()

    async def test_a_cluster_client_and_one_of_sentinels_will_do(
        self, valkey_cluster: ValkeyCluster, valkey_sentinel: ValkeySentinel, namespace: str
    ) -> None:
        cluster = await RedisCluster(host="127.0.0.1", port=valkey_cluster.servers[0].port).initialize()
        sentinel = Sentinel([("127.0.0.1", port) for port in valkey_sentinel.ports])
        master = sentinel.master_for(valkey_sentinel.service)
        for client in (cluster, master):
            made = [RedisLeases.from_client(client, namespace=namespace, restart="trust") for _ in range(2)]
            await works(*made)
            for leases in made:
                await leases.aclose()
            await client.aclose()
        for one in sentinel.sentinels:
            await one.aclose()

    async def test_a_request_has_the_leases_time_and_a_store_its_own(self, valkey_url: str) -> None:
        client = redis.asyncio.Redis.from_url(valkey_url)
        leases, store = RedisLeases.from_client(client), RedisStore(client, deadline=7.0)
        by_url: Any = RedisLeases.from_url(valkey_url).part().backend
        given: Any = leases.part().backend
        assert given.scripts._store.deadline == by_url.scripts._store.deadline
        kept: Any = RedisLeases.from_client(store).part().backend
        assert kept.scripts._store.deadline == 7.0

    @pytest.mark.parametrize("client", [None, "redis://localhost", redis.Redis(), object()])
    def test_what_is_no_such_client_is_refused_with_what_to_write(self, client: Any) -> None:
        with pytest.raises(
            Misuse, match=r"RedisLeases needs a redis\.asyncio\.Redis .*RedisLeases\.from_url"
        ):
            RedisLeases.from_client(client)


class Connecting:
    """Counts what it makes, and fails while `broken`."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.made: list[Any] = []
        self.broken = False

    async def __call__(self) -> Any:
        if self.broken:
            raise LookupError("no password today")
        self.made.append(await asyncpg.connect(self.url, statement_cache_size=0))
        return self.made[-1]


class TestConnect:
    async def test_every_connection_is_made_by_it_and_a_lost_one_anew(
        self, postgres_url: str, namespace: str
    ) -> None:
        connect, other = Connecting(postgres_url), PostgresLeases.from_url(postgres_url, namespace=namespace)
        async with other, PostgresLeases.from_connect(connect, namespace=namespace) as leases:
            await leases.create_schema()
            await works(leases, other)
            async with leases.hold("n", wait=PATIENCE) as lease:
                before = len(connect.made)
                for connection in connect.made:
                    connection.terminate()
                await lease.check()
                assert len(connect.made) > before
        assert all(connection.is_closed() for connection in connect.made)

    async def test_while_it_fails_nothing_starts_and_its_words_are_kept_out_of_the_error(
        self, postgres_url: str, namespace: str
    ) -> None:
        connect = Connecting(postgres_url)
        async with PostgresLeases.from_connect(connect, namespace=namespace, listen=False) as leases:
            connect.broken = True
            with pytest.raises(StoreUnavailable, match="LookupError") as raised:
                async with leases.hold("n", wait=0):
                    raise AssertionError
            assert "password" not in str(raised.value)
            connect.broken = False
            await leases.create_schema()
            async with leases.hold("n", wait=0):
                pass

    async def test_another_one_may_listen(self, postgres_url: str, namespace: str) -> None:
        connect, listen = Connecting(postgres_url), Connecting(postgres_url)
        async with PostgresLeases.from_connect(connect, namespace=namespace, listen=listen) as leases:
            await leases.create_schema()
            backend: Any = leases.part().backend
            await backend.ear.settled()
            assert backend.ear.hearing and len(listen.made) == 1

    async def test_a_connection_of_a_pool_is_refused_and_given_back(
        self, postgres_url: str, namespace: str
    ) -> None:
        async with asyncpg.create_pool(postgres_url, min_size=0, max_size=1) as pool:
            leases = PostgresLeases.from_connect(pool.acquire, namespace=namespace, listen=False)
            with pytest.raises(Misuse, match="pool"):
                await leases.create_schema()
            async with asyncio.timeout(PATIENCE):
                assert await pool.fetchval("SELECT 1") == 1
            await leases.aclose()

    async def test_what_makes_no_connection_of_asyncpg_is_told(self, namespace: str) -> None:
        async def connect() -> Any:
            return object()

        leases = PostgresLeases.from_connect(connect, namespace=namespace, listen=False)
        with pytest.raises(Misuse, match="an asyncpg connection, not a object"):
            await leases.create_schema()
        await leases.aclose()
        for given in (None, "postgresql://localhost", object()):
            with pytest.raises(Misuse, match=r"asyncpg\.connect"):
                PostgresLeases.from_connect(given)  # type: ignore[arg-type]
            with pytest.raises(Misuse, match=r"asyncpg\.connect"):
                PostgresLeases.from_connect(connect, listen=given)

    async def test_its_connections_are_left_alone_in_a_forked_child(
        self, postgres_url: str, namespace: str
    ) -> None:
        connect = Connecting(postgres_url)
        async with PostgresLeases.from_connect(connect, namespace=namespace, listen=False) as leases:
            await leases.create_schema()
            async with leases.hold("n") as lease:
                child = os.fork()
                if child == 0:
                    for connection in connect.made:
                        connection.terminate()
                    os._exit(0)
                await asyncio.to_thread(os.waitpid, child, 0)
                await lease.check()
