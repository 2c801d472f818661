"""Tags in every store: a version where there was none, the same one for all, another one after it was dropped."""

from __future__ import annotations

import asyncio

import pytest
import redis.asyncio

from bench.herd.valkey import ValkeyServer
from stampede_guard.api.urls import store_from_url
from stampede_guard.core.tags import SIZE
from stampede_guard.errors import StoreError
from stampede_guard.policy import Policy
from stampede_guard.stores.protocol import Session
from tests.support.backends import Backend
from tests.support.listener import RecordingListener

POLICY = Policy(ttl=60, stale_ttl=30)


async def version(session: Session, name: str) -> bytes | None:
    reading = await session.read_tag(name)
    return None if reading is None else reading.body


async def test_all_who_ask_at_once_get_one_version_and_read_it(backend: Backend, name: str) -> None:
    sessions = [backend.open()[0] for _ in range(3)]
    assert await version(sessions[0], name) is None
    made = await asyncio.gather(*(session.ensure_tag(name, policy=POLICY) for session in sessions))
    assert len(set(made)) == 1 and len(made[0]) == SIZE
    assert [await version(session, name) for session in sessions] == made


async def test_a_dropped_tag_is_absent_and_then_never_what_it_was(backend: Backend, name: str) -> None:
    session, _ = backend.open()
    before = await session.ensure_tag(name, policy=POLICY)
    await session.drop_tag(name)
    assert await version(session, name) is None
    await session.drop_tag(name)
    assert await session.ensure_tag(name, policy=POLICY) != before


async def test_a_version_outlives_every_value_that_is_computed_with_it(backend: Backend, name: str) -> None:
    session, _ = backend.open()
    made = await session.ensure_tag(name, policy=POLICY)
    await backend.age(name, POLICY.compute_timeout + POLICY.wait_timeout)
    await backend.age(name, POLICY.ttl + POLICY.stale_ttl)
    assert await version(session, name) == made
    assert await session.ensure_tag(name, policy=POLICY) == made
    await backend.age(name, POLICY.compute_timeout + POLICY.wait_timeout)
    await backend.age(name, POLICY.ttl + POLICY.stale_ttl)
    assert await version(session, name) == made, "its life was extended when it was asked for again"
    await backend.age(name, 3600.0)
    assert await version(session, name) is None, "what nobody uses does not stay"


async def test_a_short_lived_value_does_not_shorten_the_tag_s_life(backend: Backend, name: str) -> None:
    session, _ = backend.open()
    made = await session.ensure_tag(name, policy=Policy(ttl=3600))
    assert await session.ensure_tag(name, policy=Policy(ttl=1)) == made
    await backend.age(name, 3600.0)
    assert await version(session, name) == made


async def test_a_tag_can_be_made_and_dropped_when_the_server_is_out_of_memory() -> None:
    with ValkeyServer() as server:
        session = store_from_url(server.url).open_session(RecordingListener())
        made = await session.ensure_tag("shop:#a", policy=POLICY)
        with server.client() as client:
            client.config_set("maxmemory", "1")
            with pytest.raises(redis.exceptions.ResponseError, match="maxmemory"):
                client.set("x", "y")
        assert await session.ensure_tag("shop:#a", policy=POLICY) == made
        await session.drop_tag("shop:#a")
        assert await version(session, "shop:#a") is None
        assert len(await session.ensure_tag("shop:#b", policy=POLICY)) == SIZE
        await session.aclose()


async def test_what_is_stored_under_a_tag_s_name_and_is_no_version_is_replaced(
    valkey_url: str, namespace: str
) -> None:
    session = store_from_url(valkey_url).open_session(RecordingListener())
    name = f"{namespace}:#a"
    async with redis.asyncio.Redis.from_url(valkey_url) as client:
        for spoil in (client.set, client.rpush):
            await client.delete(f"{{{name}}}:v")
            await spoil(f"{{{name}}}:v", "not ours")
            made = await session.ensure_tag(name, policy=POLICY)
            assert await version(session, name) == made
    await session.aclose()


async def test_a_server_that_is_away_says_so() -> None:
    session = store_from_url("redis://127.0.0.1:1").open_session(RecordingListener())
    with pytest.raises(StoreError):
        await session.ensure_tag("shop:#a", policy=POLICY)
    with pytest.raises(StoreError):
        await session.drop_tag("shop:#a")
    await session.aclose()
