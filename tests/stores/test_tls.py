"""TLS: the connection is redis-py's, what travels on it is ours."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis.asyncio

import tests.support
from bench.herd.cluster import ValkeyCluster
from bench.herd.valkey import ValkeyServer
from stampede_guard.api.urls import store_from_url
from stampede_guard.core.scripts import Granted, Held
from stampede_guard.errors import StoreUnavailable
from stampede_guard.policy import Policy
from stampede_guard.stores.cluster import ClusterStore
from stampede_guard.stores.redis import RedisSession
from tests.support.listener import PATIENCE, RecordingListener
from tests.support.proxy import FaultProxy
from tests.support.sessions import LONG, Sessions

CERTIFICATE = Path(tests.support.__file__).with_name("tls.pem")
POLICY = Policy(ttl=60, lease_ttl=20)
BIG = bytes(range(256)) * 4 * 8_000


@pytest.fixture
async def proxy(server: ValkeyServer) -> AsyncIterator[FaultProxy]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    async with FaultProxy(server.port, tls=context) as listening:
        yield listening


def client(proxy: FaultProxy) -> redis.asyncio.Redis:
    url = proxy.url.replace("redis://", "rediss://")
    return redis.asyncio.Redis.from_url(url, ssl_ca_certs=str(CERTIFICATE), ssl_check_hostname=True)


async def fill(session: RedisSession, name: str, body: bytes) -> Granted:
    grant = await session.acquire(name, flight="holder", policy=POLICY)
    assert isinstance(grant, Granted)
    assert await session.publish(
        name, flight="holder", grant=grant, outcome="value", body=body, policy=POLICY
    )
    return grant


async def test_everything_works_and_values_of_any_size_go_through(
    proxy: FaultProxy, sessions: Sessions, name: str
) -> None:
    (one, _), (other, heard) = sessions.open(client(proxy)), sessions.open(client(proxy))
    for entry, body in ((name, b"body"), (name + "-big", BIG)):
        grant = await one.acquire(entry, flight="holder", policy=POLICY)
        assert isinstance(grant, Granted)
        assert isinstance(await other.acquire(entry, flight="other", policy=POLICY), Held)
        assert await one.renew(entry, flight="holder", token=grant.token, policy=POLICY)
        assert await one.publish(
            entry, flight="holder", grant=grant, outcome="value", body=body, policy=POLICY
        )
        assert (await heard.message(entry)).token == grant.token
    small, big = await asyncio.gather(other.read(name), other.read(name + "-big"))
    assert small is not None and small.body == b"body"
    assert big is not None and big.body == BIG


async def test_a_reset_and_a_black_hole_are_survived(
    proxy: FaultProxy, sessions: Sessions, name: str
) -> None:
    # Shorter than the black hole, and long enough for a handshake on a busy machine.
    session, listener = sessions.open(client(proxy), deadline=2.0)
    await fill(session, name, b"body")
    grant = await session.acquire(name + "-big", flight="holder", policy=POLICY)
    assert isinstance(grant, Granted)
    # A subscription still on its way would not be cut.
    await listener.until(lambda heard: heard.gaps >= 1)
    proxy.cut()
    await listener.until(lambda heard: heard.gaps >= 3)
    await session.read(name)
    proxy.black_hole()
    with pytest.raises(StoreUnavailable):
        big = session.publish(
            name + "-big", flight="holder", grant=grant, outcome="value", body=BIG, policy=POLICY
        )
        await asyncio.wait_for(big, PATIENCE)
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(session.read(name), PATIENCE)
    await listener.until(lambda heard: heard.breaker == [True])
    proxy.heal()
    await listener.until(lambda heard: heard.breaker == [True, False])
    reading = await session.read(name)
    assert reading is not None and reading.body == b"body"


async def test_a_certificate_that_nobody_trusts_is_no_store(
    proxy: FaultProxy, sessions: Sessions, name: str
) -> None:
    session, _ = sessions.open(redis.asyncio.Redis.from_url(proxy.url.replace("redis://", "rediss://")))
    with pytest.raises(StoreUnavailable, match="certificate"):
        await session.read(name)


async def test_a_cluster_is_spoken_to_in_tls_on_every_node(valkey_cluster: ValkeyCluster, name: str) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    async with contextlib.AsyncExitStack() as stack:
        proxies = {
            server.port: await stack.enter_async_context(FaultProxy(server.port, tls=context))
            for server in valkey_cluster.servers
        }
        hosts = ",".join(f"127.0.0.1:{proxy.port}" for proxy in proxies.values())
        store = store_from_url(f"rediss+cluster://{hosts}?ssl_ca_certs={CERTIFICATE}")
        assert isinstance(store, ClusterStore)
        store.deadline = LONG
        store.remap = lambda address: (address[0], proxies[address[1]].port)
        session = store.open_session(RecordingListener())
        stack.push_async_callback(session.aclose)
        names = [f"{name}-{number}" for number in range(12)]
        for entry in names:
            grant = await session.acquire(entry, flight="holder", policy=POLICY)
            assert isinstance(grant, Granted)
            assert await session.publish(
                entry, flight="holder", grant=grant, outcome="value", body=b"body", policy=POLICY
            )
        readings = await asyncio.gather(*map(session.read, names))
        assert [reading and reading.body for reading in readings] == [b"body"] * 12
        assert all(proxy.commands(b"EVALSHA") for proxy in proxies.values())
