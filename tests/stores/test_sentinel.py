"""A master that sentinels watch: how it is found, and how it is left."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from bench.herd.cluster import ValkeySentinel
from bench.herd.valkey import ValkeyServer, free_port
from stampede_guard.core.scripts import Granted
from stampede_guard.errors import StoreError, StoreRefused, StoreUnavailable
from stampede_guard.policy import Policy
from stampede_guard.stores.redis import RedisSession
from stampede_guard.stores.sentinel import SentinelStore
from stampede_guard.stores.urls.addresses import sentinel_from_url
from tests.support.listener import RecordingListener
from tests.support.proxy import FaultProxy

POLICY = Policy(ttl=60, lease_ttl=20)
LONG = 10.0

Open = Callable[..., tuple[RedisSession, RecordingListener]]


def store_at(url: str, *, deadline: float = LONG) -> SentinelStore:
    store = sentinel_from_url(url)
    store.deadline = deadline
    return store


@pytest.fixture
async def open_on() -> AsyncIterator[Open]:
    opened: list[RedisSession] = []

    def open_session(url: str, *, deadline: float = LONG) -> tuple[RedisSession, RecordingListener]:
        listener = RecordingListener()
        opened.append(store_at(url, deadline=deadline).open_session(listener))
        return opened[-1], listener

    yield open_session
    for session in opened:
        await session.aclose()


def hosts(*ports: int) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in ports)


async def test_any_sentinel_that_knows_will_do(valkey_sentinel: ValkeySentinel) -> None:
    alive, service = valkey_sentinel.ports[0], valkey_sentinel.service
    for _ in range(5):  # they are asked in a random order
        store = store_at(f"redis+sentinel://{hosts(free_port(), alive, free_port())}/{service}")
        assert await store.find_master() == ("127.0.0.1", valkey_sentinel.master().port)


async def test_a_frozen_sentinel_does_not_cost_the_whole_deadline(valkey_sentinel: ValkeySentinel) -> None:
    alive, service = valkey_sentinel.ports[0], valkey_sentinel.service
    async with FaultProxy(alive) as proxy:
        proxy.black_hole()
        store = store_at(f"redis+sentinel://{hosts(proxy.port, alive)}/{service}", deadline=LONG)
        async with asyncio.timeout(LONG / 2):
            for _ in range(3):
                assert await store.find_master() == ("127.0.0.1", valkey_sentinel.master().port)


async def test_without_a_sentinel_the_store_is_away_and_found_again(
    valkey_sentinel: ValkeySentinel, open_on: Open, name: str
) -> None:
    async with FaultProxy(valkey_sentinel.ports[0]) as proxy:
        await proxy.refuse()
        session, listener = open_on(f"redis+sentinel://{hosts(proxy.port)}/{valkey_sentinel.service}")
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                await session.read(name)
        assert listener.breaker == [True]
        await proxy.listen()
        await listener.until(lambda heard: heard.breaker == [True, False])
        assert isinstance(await session.acquire(name, flight="f", policy=POLICY), Granted)


async def test_an_unknown_service_is_told_with_its_name(
    valkey_sentinel: ValkeySentinel, open_on: Open, name: str
) -> None:
    session, _ = open_on(f"redis+sentinel://{hosts(*valkey_sentinel.ports)}/nobody")
    with pytest.raises(StoreUnavailable, match=r"master (for )?'nobody'"):
        await session.read(name)


async def test_a_sentinel_that_refuses_is_no_outage(
    open_on: Open, own_valkey: ValkeyServer, name: str
) -> None:
    # It asks for a password, and it is no sentinel at all.
    with own_valkey.client() as client:
        client.config_set("requirepass", "secret")
    session, listener = open_on(f"redis+sentinel://{hosts(own_valkey.port)}/m?sentinel_password=wrong")
    for _ in range(3):
        with pytest.raises(StoreRefused):
            await session.read(name)
    assert listener.breaker == []


async def test_a_master_that_was_demoted_is_left_for_the_new_one(open_on: Open, name: str) -> None:
    with ValkeySentinel() as sentinel:
        session, listener = open_on(sentinel.url)
        granted = await session.acquire(name, flight="f", policy=POLICY)
        assert isinstance(granted, Granted)
        before = sentinel.master()
        with sentinel_client(sentinel) as client:
            client.execute_command("SENTINEL", "FAILOVER", sentinel.service)
        async with asyncio.timeout(60):
            while await asyncio.to_thread(sentinel.master) is before:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
            # Sentinels do this too, within ten seconds, and also end the connections. Here they stay.
            with before.client() as client:
                client.execute_command("REPLICAOF", "127.0.0.1", sentinel.master().port)
            while True:
                try:
                    answer = await session.invalidate(name, policy=POLICY)
                    break
                except StoreError:
                    await asyncio.sleep(0.05)
        assert answer > granted.token
        assert sentinel.master() is not before
        await listener.until(lambda heard: bool(session._inbox.confirmed_name))
        again = await session.acquire(name, flight="g", policy=POLICY)
        assert not isinstance(again, Granted), "the lease was replicated, and its holder lives"


def sentinel_client(sentinel: ValkeySentinel) -> Any:
    return ValkeyServer(port=sentinel.ports[0]).client()
