"""A server without memory still remembers that a key is not cacheable: it needs that more than any other."""

from __future__ import annotations

import pytest
import redis.asyncio
import redis.exceptions

from bench.herd.valkey import ValkeyServer
from stampede_guard.core.scripts import Granted, Uncacheable
from tests.support.asking import POLICY, grant, held
from tests.support.sessions import Sessions


async def test_waiters_are_let_through_by_a_full_server(
    server: ValkeyServer, sessions: Sessions, name: str, outside: redis.asyncio.Redis
) -> None:
    (session, _), (other, heard) = sessions.open(server.url), sessions.open(server.url)
    await outside.config_set("maxmemory", "1")
    try:
        with pytest.raises(redis.exceptions.OutOfMemoryError):
            await outside.set("no-room", "x")
        granted: Granted = await grant(session, name)
        await held(other, name)
        assert await session.publish(
            name, flight="holder", grant=granted, outcome="pass", body=b"", policy=POLICY
        )
        assert (await heard.message(name)).kind == "again"
        for flight in ("first", "second"):
            answer = await other.acquire(name, flight=flight, policy=POLICY)
            assert isinstance(answer, Uncacheable)
        assert await other.publish(
            name, flight="second", grant=answer.grant, outcome="pass", body=b"", policy=POLICY
        )
    finally:
        await outside.config_set("maxmemory", "0")
