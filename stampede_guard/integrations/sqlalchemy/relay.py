"""The relay of an outbox: a task or a thread of each process, which delivers what a dead process left behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from sqlalchemy import Connection, Engine

from stampede_guard.durations import Duration, advice, seconds
from stampede_guard.errors import Misuse
from stampede_guard.integrations.outboxes import AT_ONCE, TOGETHER, Bell, NextLook, Stuck, run
from stampede_guard.integrations.sqlalchemy.coroutines import AsyncEngine
from stampede_guard.integrations.sqlalchemy.delivery import settled_now
from stampede_guard.integrations.sqlalchemy.listening import AsyncBell, listening_connection
from stampede_guard.integrations.sqlalchemy.outbox import Outbox, changes_of
from stampede_guard.options import takes_options

if TYPE_CHECKING:
    from stampede_guard.api.guard import StampedeGuard

__all__ = ["OutboxRelay"]

log = logging.getLogger("stampede_guard")
ENDS_WITHIN = 5.0
"""Seconds until a task that was cancelled is cancelled again."""


class OutboxRelay:
    """Delivers the rows of an outbox: `async with OutboxRelay(outbox, guard, engine):` around a service.

    With an `AsyncEngine`, it is a task of the running event loop. With an `Engine`, write `with`: it is a thread. It
    deletes the rows that this process has delivered. It takes over rows that are older than `after` (1 s), in batches
    of 100. It hears of commits by LISTEN, on one connection beside the pool, if the driver is psycopg, psycopg2 or
    asyncpg. Otherwise it looks every `every` seconds (1 s, with jitter); if it can listen, ten times as rarely. Each
    look takes one connection of the pool. Relays of several processes do not take the same row.

    Errors of the database are logged once, and the relay goes on. Raises `Misuse`.
    """

    @takes_options("OutboxRelay")
    def __init__(
        self,
        outbox: Outbox,
        guard: StampedeGuard,
        engine: Engine | AsyncEngine,
        *,
        every: Duration = 1.0,
        after: Duration = 1.0,
    ) -> None:
        self._outbox, self._guard, self._engine = outbox, guard, engine
        self._every: float = seconds(every)
        self._after: float = seconds(after)
        times = [value for value in (self._every, self._after) if isinstance(value, int | float)]
        if len(times) < 2 or not times[0] > 0 or not times[1] >= 0:
            rule = f"every={every!r} must be above 0 s, and after={after!r} 0 s or more"
            raise Misuse(rule + (advice(every) or advice(after)))
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._stopped = threading.Event()
        self._bell: Bell | None = None
        self._stuck = Stuck()
        self._failing = False

    def deliver(self) -> int:
        """One pass now. How many rows it delivered. For an `Engine`."""
        if not isinstance(self._engine, Engine):
            raise Misuse("the relay has an AsyncEngine: write await relay.adeliver()")
        with self._engine.begin() as connection:
            return self._pass(connection)

    async def adeliver(self) -> int:
        """The same for an `AsyncEngine`."""
        if not isinstance(self._engine, AsyncEngine):
            raise Misuse("the relay has a plain Engine: write relay.deliver()")
        async with self._engine.begin() as connection:
            return await connection.run_sync(self._pass)

    def _pass(self, connection: Connection) -> int:
        self._outbox.clean(connection)
        but = self._stuck.rows()
        rows = self._outbox.claim(connection, self._guard, older_than=self._after, most=AT_ONCE, but=but)
        done = []
        for row in rows:
            try:
                if not settled_now(changes_of(row, self._guard)):
                    break  # while Redis is away, the rows stay where they are
            except Exception as error:
                self._stuck.add(row["id"], error)
            else:
                done.append(row["id"])
        self._outbox.delete(connection, done)
        return len(done)

    def _clean(self) -> None:
        if isinstance(self._engine, Engine) and self._outbox.has_settled:
            with self._engine.begin() as connection:
                self._outbox.clean(connection)

    async def __aenter__(self) -> Self:
        if not isinstance(self._engine, AsyncEngine):
            raise Misuse("the relay has a plain Engine: write `with OutboxRelay(...)`, without async")
        self._task = asyncio.get_running_loop().create_task(self._arun(), name="stampede_guard outbox")
        return self

    async def __aexit__(self, *_: object) -> None:
        # A driver may lose a cancellation, as `asyncio.wait_for` of Python 3.11 does.
        while self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait({self._task}, timeout=ENDS_WITHIN)

    def __enter__(self) -> Self:
        if not isinstance(self._engine, Engine):
            raise Misuse("the relay has an AsyncEngine: write `async with OutboxRelay(...)`")
        engine, self._bell = self._engine, None
        self._stopped.clear()
        self._bell = Bell(lambda: listening_connection(engine) if self._outbox.notify else None)
        self._outbox.rings(self._bell.ring)
        self._thread = threading.Thread(target=self._run, name="stampede_guard outbox", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        if self._bell is not None:
            self._bell.ring()
        if self._thread is not None:
            self._thread.join()

    async def _arun(self) -> None:
        engine = self._engine
        assert isinstance(engine, AsyncEngine)
        bell, schedule = AsyncBell(engine), NextLook(self._every, self._after)
        self._outbox.rings(bell.ring)
        try:
            while True:
                with self._telling():
                    if self._outbox.notify:
                        await bell.listen()
                    while await self.adeliver() == AT_ONCE:
                        pass
                schedule.looked(time.monotonic(), listening=bell.is_listening and not self._failing)
                while (left := schedule.due - time.monotonic()) > 0:
                    if await bell.wait(left):
                        schedule.heard(time.monotonic())
                    await asyncio.sleep(TOGETHER)
                    with self._telling():
                        if self._outbox.has_settled:
                            async with engine.begin() as connection:
                                await connection.run_sync(self._outbox.clean)
        finally:
            self._outbox.rings_no_more(bell.ring)
            await bell.close()

    def _run(self) -> None:
        bell = self._bell
        assert bell is not None
        try:
            run(self.deliver, self._clean, bell, NextLook(self._every, self._after), self._stopped)
        finally:
            self._outbox.rings_no_more(bell.ring)
            bell.close()

    @contextlib.contextmanager
    def _telling(self) -> Any:
        try:
            yield
            self._failing = False
        except Exception:
            if not self._failing:
                log.exception("the outbox of invalidations cannot be read; the relay tries again")
            self._failing = True
