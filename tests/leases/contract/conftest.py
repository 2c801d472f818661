"""Every back end of leases, one after the other, behind one face."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import redis.asyncio
from redis.asyncio.cluster import RedisCluster
from redis.asyncio.sentinel import Sentinel

from stampede_guard.stores.cluster import ClusterStore
from stampede_guard.stores.redis import RedisStore
from stampede_guard.stores.sentinel import SentinelStore
from tests.support.leases import LONG, MemoryWorld, PostgresWorld, RedisWorld, World


@pytest.fixture
def name(namespace: str) -> str:
    return f"{namespace}:lease"


@pytest.fixture(params=["memory", "postgres", "valkey", "cluster", "sentinel"])
async def world(request: pytest.FixtureRequest, namespace: str) -> AsyncIterator[World]:
    made: MemoryWorld | PostgresWorld | RedisWorld
    match request.param:
        case "memory":
            made = MemoryWorld()
        case "postgres":
            made = PostgresWorld(request.getfixturevalue("postgres_url"))
            await made.prepare()
        case "cluster":
            port = request.getfixturevalue("valkey_cluster").servers[0].port
            cluster = await RedisCluster(host="127.0.0.1", port=port).initialize()
            made = RedisWorld(ClusterStore.from_client(cluster, deadline=LONG), cluster, namespace)
        case "sentinel":
            watched = request.getfixturevalue("valkey_sentinel")
            sentinel = Sentinel([("127.0.0.1", port) for port in watched.ports])
            client = sentinel.master_for(watched.service)
            made = RedisWorld(SentinelStore.from_client(client, deadline=LONG), client, namespace)
        case _:
            outside = redis.asyncio.Redis.from_url(request.getfixturevalue("valkey_url"))
            made = RedisWorld(RedisStore(outside, deadline=LONG), outside, namespace)
    try:
        yield made
    finally:
        await made.aclose()
