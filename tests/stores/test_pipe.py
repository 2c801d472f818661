"""Who reads a connection: the lane itself where there is a socket, redis-py where there is none."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import fakeredis
import pytest
import redis.asyncio
import uvloop

from stampede_guard.stores.redis import RedisStore
from tests.support.listener import RecordingListener


async def taken_over(client: redis.asyncio.Redis, name: str) -> bool:
    """After several reads of one tick, each of a key of its own, all answered."""
    session = RedisStore(client).open_session(RecordingListener())
    try:
        assert (
            await asyncio.gather(*[session.read(f"{name}:{number}") for number in range(100)]) == [None] * 100
        )
        return session._lane._pipe is not None
    finally:
        await session.aclose()
        await client.aclose()


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_socket_is_read_without_a_detour_on_any_event_loop(
    valkey_url: str, namespace: str, make_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    with asyncio.Runner(loop_factory=make_loop) as runner:
        assert runner.run(taken_over(redis.asyncio.Redis.from_url(valkey_url), namespace))


async def test_what_has_no_socket_is_read_by_redis_py(namespace: str) -> None:
    assert not await taken_over(fakeredis.FakeAsyncRedis(), namespace)
