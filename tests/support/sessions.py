"""Sessions on Redis that are closed at the end of a test, whatever happened to them."""

from __future__ import annotations

import asyncio

import pytest
import redis.asyncio

from stampede_guard.errors import StoreUnavailable
from stampede_guard.stores.redis import RedisSession, RedisStore
from tests.support.asking import POLICY, grant, publish
from tests.support.listener import PATIENCE, RecordingListener

__all__ = ["LONG", "SHORT", "Sessions", "patient", "unavailable", "until_in_flight", "warm"]

LONG = 15.0
"""A deadline in seconds that no busy machine reaches: for tests in which nothing should time out."""
SHORT = 0.3
"""A deadline for tests in which something must."""


def patient(url: str) -> str:
    """The URL of a server that no test stops, with `LONG` as its deadline."""
    return f"{url}?socket_timeout={LONG:g}"


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


async def warm(session: RedisSession, name: str) -> None:
    """Every connection stands, every script of the tests is known to the server, and `name` has a value."""
    granted = await grant(session, name)
    await session.renew(name, flight="holder", token=granted.token, policy=POLICY)
    await publish(session, name, granted)
    await session.release(name, flight="holder")
    await session.read(name)


async def unavailable(session: RedisSession, name: str) -> None:
    """A read fails because the store is not there, and does not wait for ever."""
    with pytest.raises(StoreUnavailable):
        await asyncio.wait_for(session.read(name), PATIENCE)


async def until_in_flight(session: RedisSession) -> None:
    """Until a command has been sent, turn by turn of the loop: its answer cannot have been read yet."""
    for _ in range(100_000):
        if session._lane._pending:
            return
        await asyncio.sleep(0)
    raise TimeoutError("nothing was ever sent")
