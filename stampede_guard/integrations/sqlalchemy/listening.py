"""How a relay hears the NOTIFY of a commit: on a connection of its own, beside the pool."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

from sqlalchemy import Engine

from stampede_guard.integrations.outboxes import CHANNEL, notified
from stampede_guard.integrations.sqlalchemy.coroutines import AsyncEngine

__all__ = ["AsyncBell", "listening_connection"]

log = logging.getLogger("stampede_guard")


def listening_connection(engine: Engine) -> Any:
    """The connection of the driver. None for a driver that is not known here."""
    if engine.dialect.driver not in ("psycopg", "psycopg2"):
        return None
    raw = engine.raw_connection()
    connection: Any = raw.driver_connection
    raw.detach()
    connection.autocommit = True
    connection.cursor().execute(f"LISTEN {CHANNEL}")
    return connection


class AsyncBell:
    """Wakes the task of a relay, as `Bell` wakes a thread."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._heard = False
        self._connection: Any = None
        self._driver: Any = None
        self._watched: int | None = None
        """The descriptor that the event loop watches. psycopg closes its own when it notices that it is lost."""
        self._lost = False

    @property
    def is_listening(self) -> bool:
        return self._driver is not None

    async def listen(self) -> None:
        if self._driver is not None or self._engine.dialect.driver not in ("asyncpg", "psycopg"):
            return
        try:
            self._connection = await self._engine.connect()
            raw = await self._connection.get_raw_connection()
            driver: Any = raw.driver_connection
            raw.detach()
            await self._listen_on(driver)
            self._driver = driver
            self._lost = False
        except Exception as error:
            if not self._lost:
                log.warning("the relay of the outbox cannot listen, so it looks more often: %s", error)
            self._lost = True
            await self.close()

    async def _listen_on(self, driver: Any) -> None:
        if self._engine.dialect.driver == "asyncpg":
            driver.add_termination_listener(lambda *_: self._hang_up())
            await driver.add_listener(CHANNEL, lambda *_: self._hear())
        else:
            await driver.set_autocommit(True)
            await driver.execute(f"LISTEN {CHANNEL}")
            self._watch(driver)

    def _watch(self, driver: Any) -> None:
        self._watched = driver.fileno()
        self._loop.add_reader(self._watched, self._readable)

    def _watch_no_more(self) -> None:
        watched, self._watched = self._watched, None
        if watched is not None:
            self._loop.remove_reader(watched)

    def _readable(self) -> None:
        # Until `wait` has read it, the loop would call this in each of its turns.
        self._watch_no_more()
        self._hear()

    def _hear(self) -> None:
        self._heard = True
        self._woken.set()

    def _hang_up(self) -> None:
        self._driver = None
        self._hear()

    def ring(self) -> None:
        """Called from any thread."""
        with contextlib.suppress(RuntimeError):  # the loop has ended, and with it the relay
            self._loop.call_soon_threadsafe(self._woken.set)

    async def wait(self, seconds: float) -> bool:
        """Until it rings, a NOTIFY comes, or the time is over. Whether one came."""
        try:
            # Not `wait_for`: in Python 3.11 it loses a cancellation that comes in the moment of a ring.
            async with asyncio.timeout(max(0.0, seconds)):
                await self._woken.wait()
        except TimeoutError:
            return False
        self._woken.clear()
        heard, self._heard = self._heard, False
        if heard and self._driver is not None and hasattr(self._driver, "pgconn"):
            try:
                notified(self._driver)
                self._watch(self._driver)
            except Exception as error:
                log.warning("the relay of the outbox has lost its connection that listens: %s", error)
                await self.close()
        return heard

    async def close(self) -> None:
        connection, self._connection, self._driver = self._connection, None, None
        self._watch_no_more()
        if connection is not None:
            try:
                await connection.close()
            except Exception:
                log.debug("a connection that listened could not be closed", exc_info=True)
