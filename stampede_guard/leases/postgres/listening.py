"""LISTEN, where it works: on a connection that is the server's own and not a pooler's.

Behind PgBouncer in transaction mode LISTEN is accepted, hears nothing, and stays behind on a connection that others use
next. A pooler shows itself: the key for cancelling that it gives its clients is not that of the server process.

The same connection is this process's sign of life: it holds an advisory lock of its session, which the server lets go
when the connection ends, as it does at once when the process is killed. `witness` names it to those who look.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable
from contextvars import Context
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from stampede_guard.leases.forked import let_go_in_children
from stampede_guard.leases.postgres.rooms import Connect, let_go_after_fork
from stampede_guard.leases.postgres.statements import CALLS, CHANNEL

__all__ = ["Ear"]

log = logging.getLogger("stampede_guard")

FIRST_RETRY = 0.1
LONGEST_RETRY = 30.0
QUIET_SECONDS = 60.0
"""How often the connection is asked whether it is still there."""


class Ear:
    """Calls `hear(name)` for each lease that was freed, and `call(holder, ahead)` for each waiter whose turn has come,
    while `hearing`; `changed()` when `witness` has changed. Begins with `start`."""

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
        let_go_in_children(self)
        self.hearing = False
        self.witness = ""
        """What shows the server that this process is there; empty = nothing does at present."""
        self.pooled = False
        """A pooler is between: it is not tried again."""

    def start(self) -> None:
        if self._task is None:
            # Nothing of the request that came first: this task serves all.
            self._task = asyncio.get_running_loop().create_task(
                self._run(), name="stampede_guard lease listener", context=Context()
            )

    async def settled(self) -> None:
        """Until it listens, or has failed to for the first time."""
        self.start()
        await self._settled.wait()

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def abandon(self) -> None:
        """After a fork, in the child."""
        connection, self._connection = self._connection, None
        if connection is not None:
            let_go_after_fork(connection)

    async def _run(self) -> None:
        retry = FIRST_RETRY
        while True:
            try:
                if not await self._listens():
                    log.info(
                        "a pooler is before the database: freed leases are found by asking, without LISTEN"
                    )
                    return
                retry = FIRST_RETRY
                await self._keep()
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError, TimeoutError) as error:
                log.debug("leases are not listened for now, they are asked for: %s", error)
            except Exception as error:
                # What a user's own `connect` raises: the steps meet the same error, and who asks hears of it.
                log.debug("leases are not listened for now: %s", type(error).__name__)
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
            # Another number for each connection: the server may not have noticed yet that the last one ended.
            key = secrets.randbits(62)
            life = await connection.fetchval(  # noqa: SG303 the connection is of this process alone, and its end is to free the lock
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
                await asyncio.wait_for(self._lost.wait(), QUIET_SECONDS)
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
