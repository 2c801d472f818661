"""LISTEN on a direct connection to the server. It is not used through a pooler.

PgBouncer in transaction mode accepts LISTEN, but delivers no notifications. The LISTEN also stays on a server
connection that other clients use next. A pooler can be detected: the process id in its cancel key is not the server's.

The same connection is this process's sign of life. It holds a session advisory lock. The server releases the lock when
the connection ends. If the process is killed, that happens at once. `witness` is the id that others check.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextvars import Context
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from stampede_guard.leases.postgres.connections import Connect, let_go_after_fork
from stampede_guard.leases.postgres.statements import CALLS, CHANNEL
from stampede_guard.values.forks import abandon_in_children

__all__ = ["Ear"]

log = logging.getLogger("stampede_guard")

FIRST_RETRY = 0.1
LONGEST_RETRY = 30.0
QUIET_SECONDS = 60.0
"""Seconds between two checks of the connection."""


class Ear:
    """While `mailbox`, calls `hear(name)` for each freed lease, and `call(holder, ahead)` for each called waiter.

    Calls `changed()` when `witness` changes. Runs after `start`."""

    def __init__(
        self,
        connect: Connect,
        hear: Callable[[str], None],
        call: Callable[[str, int], None] = lambda holder, ahead: None,
        changed: Callable[[], None] = lambda: None,
        *,
        deadline: float,
    ) -> None:
        self._connect = connect
        self._hear = hear
        self._call = call
        self._changed = changed
        self._deadline = deadline
        self._task: asyncio.Task[None] | None = None
        self._connection: Any = None
        self._settled = asyncio.Event()
        self._lost = asyncio.Event()
        abandon_in_children(self)
        self.hearing = False
        self.witness = ""
        """Shows the server that this process lives; empty = currently nothing does."""
        self.pooled = False
        """There is a pooler between: LISTEN is not tried again."""

    def start(self) -> None:
        if self._task is None:
            # An empty context: this task serves all requests, and must not keep values of the first one.
            self._task = asyncio.get_running_loop().create_task(
                self._run(), name="stampede_guard lease listener", context=Context()
            )

    async def settled(self) -> None:
        """Wait until it listens, or until the first attempt has failed."""
        self.start()
        await self._settled.wait()

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def abandon(self) -> None:
        """Called in a forked child."""
        connection, self._connection = self._connection, None
        if connection is not None:
            let_go_after_fork(connection)

    async def _run(self) -> None:
        retry = FIRST_RETRY
        while True:
            try:
                if not await self._listens():
                    log.info("the database is behind a pooler: waiters poll for freed leases, without LISTEN")
                    return
                retry = FIRST_RETRY
                await self._keep()
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
                log.debug("LISTEN for leases failed, waiters poll meanwhile: %s", error)
            except Exception as error:
                # An error of the user's own `connect`. The steps get the same error and report it to their callers.
                log.debug("LISTEN for leases failed, waiters poll meanwhile: %s", type(error).__name__)
            finally:
                self.hearing = False
                self._vouch("")
                self._settled.set()
                connection, self._connection = self._connection, None
                if connection is not None:
                    connection.terminate()
            await asyncio.sleep(retry)
            retry = min(retry * 2, LONGEST_RETRY)

    async def _listens(self) -> bool:
        """False behind a pooler."""
        async with asyncio.timeout(self._deadline):
            connection = self._connection = await self._connect()
            if await connection.fetchval("SELECT pg_backend_pid()") != connection.get_server_pid():
                self.pooled = True
                return False
            self._lost.clear()
            connection.add_termination_listener(lambda _: self._lost.set())
            await connection.add_listener(CHANNEL, self._heard)
            await connection.add_listener(CALLS, self._heard_call)
            # A new number for each connection: the server may not have noticed yet that the previous one ended.
            key = secrets.randbits(62)
            life = await connection.fetchval(  # noqa: SG303 only this process uses the connection, and its end must free the lock
                """SELECT (extract(epoch FROM pg_postmaster_start_time()) * 1000000)::bigint || '-' || oid
                FROM pg_advisory_lock($1), pg_database WHERE datname = current_database()""",
                key,
            )
        self.hearing = True
        self._vouch(f"{life}.{key}")
        self._settled.set()
        return True

    def _vouch(self, witness: str) -> None:
        if witness != self.witness:
            self.witness = witness
            self._changed()

    async def _keep(self) -> None:
        while True:
            try:
                async with asyncio.timeout(QUIET_SECONDS):
                    await self._lost.wait()
                raise ConnectionResetError("the database closed the connection")
            except TimeoutError:
                pass
            async with asyncio.timeout(self._deadline):
                await self._connection.fetchval("SELECT 1")

    def _heard_call(self, connection: Any, pid: int, channel: str, holders: object) -> None:
        for ahead, holder in enumerate(str(holders).split(" ")):
            self._call(holder, ahead)

    def _heard(self, connection: Any, pid: int, channel: str, name: object) -> None:
        self._hear(str(name))
