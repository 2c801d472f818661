"""Every store, one after the other, behind one face."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import redis.asyncio

from tests.support.backends import Backend, FakeBackend, MemoryBackend, RedisBackend


@pytest.fixture
def name(namespace: str) -> str:
    """The complete name of an entry that no other test has."""
    return f"{namespace}:entry"


@pytest.fixture(params=["memory", "fakeredis", "valkey"])
async def backend(request: pytest.FixtureRequest) -> AsyncIterator[Backend]:
    made: Backend
    match request.param:
        case "memory":
            made = MemoryBackend()
        case "fakeredis":
            made = FakeBackend()
        case _:
            url = request.getfixturevalue("valkey_url")
            made = RedisBackend(redis.asyncio.Redis.from_url(url))
    try:
        yield made
    finally:
        await made.aclose()
