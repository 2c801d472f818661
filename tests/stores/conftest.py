"""Every store, one after the other, behind one face."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from tests.support.backends import (
    Backend,
    ClusterBackend,
    EncryptedBackend,
    FakeBackend,
    FaultyBackend,
    MemoryBackend,
    RedisBackend,
    SentinelBackend,
)
from tests.support.proxy import FaultProxy
from tests.support.sessions import Sessions


@pytest.fixture
def name(namespace: str) -> str:
    """The complete name of an entry that no other test has."""
    return f"{namespace}:entry"


@pytest.fixture(params=["memory", "faulty", "encrypted", "fakeredis", "valkey", "cluster", "sentinel"])
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    made: Backend
    match request.param:
        case "memory":
            made = MemoryBackend()
        case "faulty":
            made = FaultyBackend()
        case "encrypted":
            made = EncryptedBackend()
        case "fakeredis":
            made = FakeBackend()
        case "cluster":
            port = request.getfixturevalue("valkey_cluster").servers[0].port
            cluster = redis.asyncio.RedisCluster(host="127.0.0.1", port=port)
            made = ClusterBackend(await cluster.initialize())
        case "sentinel":
            watched = request.getfixturevalue("valkey_sentinel")
            sentinel = redis.asyncio.Sentinel([("127.0.0.1", port) for port in watched.ports])
            made = SentinelBackend(sentinel, watched.service)
        case _:
            url = request.getfixturevalue("valkey_url")
            made = RedisBackend(redis.asyncio.Redis.from_url(url))
    try:
        yield made
    finally:
        await made.aclose()


@pytest.fixture(scope="module")
def server() -> Iterator[ValkeyServer]:
    """A server of this module alone: its tests flush scripts, change settings and kill connections."""
    with ValkeyServer() as started:
        yield started


@pytest.fixture
async def outside(server: ValkeyServer) -> AsyncIterator[redis.asyncio.Redis]:
    """A plain client of the module's server, past any proxy."""
    client = redis.asyncio.Redis.from_url(server.url)
    try:
        yield client
    finally:
        await client.aclose()


@pytest.fixture
async def proxy(server: ValkeyServer) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(server.port) as listening:
        yield listening


@pytest.fixture
async def sessions() -> AsyncIterator[Sessions]:
    opened = Sessions()
    try:
        yield opened
    finally:
        await opened.aclose()
