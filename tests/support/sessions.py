"""Sessions on Redis that are closed at the end of a test, whatever happened to them."""

from __future__ import annotations

import redis.asyncio

from stampede_guard.stores.redis import RedisSession, RedisStore
from tests.support.listener import RecordingListener

__all__ = ["LONG", "SHORT", "Sessions"]

LONG = 15.0
"""A deadline in seconds that no busy machine reaches: for tests in which nothing should time out."""
SHORT = 0.3
"""A deadline for tests in which something must."""


class Sessions:
    def __init__(self) -> None:
        self._opened: list[RedisSession] = []

    def open(
        self, where: str | redis.asyncio.Redis, *, deadline: float = LONG
    ) -> tuple[RedisSession, RecordingListener]:
        """A session at a URL, or with the settings of a client."""
        client = redis.asyncio.Redis.from_url(where) if isinstance(where, str) else where
        listener = RecordingListener()
        session = RedisStore(client, deadline=deadline).open_session(listener)
        self._opened.append(session)
        return session, listener

    async def aclose(self) -> None:
        for session in self._opened:
            await session.aclose()
