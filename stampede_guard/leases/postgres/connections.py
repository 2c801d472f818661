"""A small pool of PostgreSQL connections. Each statement has a time-out, and a connection in doubt is never reused.

asyncpg's own pool is not used, because it resets each connection with statements of its own. One of them releases all
advisory locks. Behind PgBouncer they run on any server connection, and the pool waits for them without a time-out.

A step waits for a connection of the pool and then for the answer. Only the second wait depends on the database, so the
time-out begins when the step has its connection. While other steps get answers, a step stays in the queue as long as
necessary. If no step got an answer for a whole time-out, the database counts as silent, and all queued steps fail.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
import traceback
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg  # type: ignore[import-untyped]

from stampede_guard.errors import Misuse, StoreError, StoreRefused, StoreUnavailable, UrlError
from stampede_guard.stores.connections.patience import patiently
from stampede_guard.values.forks import abandon_in_children, let_go

__all__ = ["Connect", "NotNow", "Connections", "connect_to", "connect_with", "store_error"]

Connect = Callable[[], Awaitable[Any]]
"""Makes an `asyncpg.Connection` with `statement_cache_size=0`."""

APPLICATION_NAME = "stampede_guard leases"
IDLE_FOR = 60.0
"""Seconds after which an unused connection is closed, so that an idle process does not keep those of a burst."""

_BROKEN = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""asyncpg raises `InternalClientError` for a request after the server closed the connection by itself."""
_CLOSE_PATIENCE = 1.0
_NOT_SERVING = ("08", "53", "57")
"""Classes of SQLSTATE: connection, resources, an operator's intervention. Source: PostgreSQL, Appendix A."""
_PASSING = ("25006", "40001", "40P01", "55P03")
"""Read-only (the server is a standby now), serialization, deadlock, lock time-out. Nothing changed; retry later."""
_MISSING = ("3F000", "42P01", "42703", "42883")
_POOLED = ("26000", "42P05")
"""A prepared statement is missing or exists already: a pooler uses different server connections."""


def connect_to(url: str, **settings: Any) -> Connect:
    """Connections to `postgresql://user:password@host:port/database?option=value`; `settings` as `asyncpg.connect`.

    A driver name in the scheme (`postgresql+asyncpg://`) is removed. Raises `UrlError` for another scheme, or for a URL
    that cannot be read.
    """
    found = re.fullmatch(r"postgres(?:ql)?(?:\+\w+)?://(.*)", str(url).strip(), re.DOTALL)
    if found is None:
        raise UrlError("write the database's URL as postgresql://user:password@host:port/database")
    dsn = f"postgresql://{found[1]}"
    _check(dsn)
    settings = _named(dsn, settings)

    async def connect() -> Any:
        # A prepared statement belongs to one server connection. Behind PgBouncer that may be another one each time.
        return await asyncpg.connect(dsn, statement_cache_size=0, **settings)

    return connect


def _check(dsn: str) -> None:
    """Check the URL now. The first request would report only that there is no answer, or show a part of the password.

    The ports of several hosts are not checked here; asyncpg parses them.
    """
    try:
        parts = urlsplit(dsn)
        if "," not in parts.netloc:
            _ = parts.port
    except ValueError:
        raise UrlError(
            "the port in the database URL must be 1 to 65535: write postgresql://user:password@host:5432/database"
        ) from None
    try:
        options = parse_qs(parts.query, strict_parsing=True) if parts.query else {}
    except ValueError:
        options = None
    if options is None or "@" in parts.fragment or parts.netloc.count("@") > 1:
        raise UrlError(
            "the database URL cannot be read: write postgresql://user:password@host:5432/database?option=value; "
            "in a password, write / # ? @ as %2F %23 %3F %40"
        )


def _named(dsn: str, settings: dict[str, Any]) -> dict[str, Any]:
    """The settings with an application name for `pg_stat_activity`, unless the user has set one."""
    given = settings.get("server_settings") or {}
    own = "application_name" in given or "application_name" in parse_qs(urlsplit(dsn).query)
    if own or os.environ.get("PGAPPNAME"):
        return settings
    return settings | {"server_settings": {"application_name": APPLICATION_NAME, **given}}


def connect_with(connect: Connect, *, option: str = "connect") -> Connect:
    """Connections from the user's function. Raises `Misuse` if it is not callable.

    The result raises `Misuse` later if the function returns a pool's connection or another object.
    """
    if not callable(connect):
        raise Misuse(
            f"{option} must be a function without arguments that returns a new asyncpg connection: write "
            f"lambda: asyncpg.connect(...), not a {type(connect).__name__}"
        )

    async def checked() -> Any:
        connection = await connect()
        if isinstance(connection, asyncpg.pool.PoolConnectionProxy):
            # We keep connections. The pool would lack this one, and closing the pool would wait for it.
            connection.terminate()
            raise Misuse("connect returned a pool's connection: make a new one with asyncpg.connect(...)")
        if not isinstance(connection, asyncpg.Connection):
            raise Misuse(f"connect must return an asyncpg connection, not a {type(connection).__name__}")
        return connection

    return checked


class NotNow(StoreUnavailable):
    """The database answered, but changed nothing, for example because a row was locked. A later request may succeed."""


class Connections:
    """At most `size` connections, made when needed and closed when they were unused for `idle_for` seconds.

    Waiting steps get connections in order. While other steps get answers, a wait does not count as an outage.
    """

    def __init__(self, connect: Connect, *, size: int, idle_for: float = IDLE_FOR) -> None:
        self._connect = connect
        self._size = size
        self._idle_for = idle_for
        self._seats = asyncio.Semaphore(size)
        self._idle: list[tuple[Any, float]] = []
        """Each with the time of its last use; the oldest is first."""
        self._busy: set[Any] = set()
        self._waiting: set[asyncio.Task[Any] | None] = set()
        self._answered_at = -math.inf
        self._reaper: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False
        abandon_in_children(self)

    async def fetch(self, sql: str, *args: object, timeout: float) -> Sequence[Any]:
        """The rows of one statement in autocommit. Raises `StoreUnavailable` or `StoreRefused`.

        A connection whose statement got no answer, for any reason, is closed at once.
        """
        rows: Sequence[Any] = await self.use(lambda connection: connection.fetch(sql, *args), timeout=timeout)
        return rows

    async def use(self, call: Callable[[Any], Awaitable[Any]], *, timeout: float) -> Any:
        """As `fetch`, for more than one statement. `timeout`: seconds, counted from when it has a connection."""
        seats = await self._seat(timeout)
        began = asyncio.get_running_loop().time()
        try:
            if self._closed:
                raise StoreUnavailable("the connections to the database are closed")
            async with patiently(timeout):
                return await self._use(call)
        except TimeoutError:
            if self._answered_at < began:
                # No step got an answer in this time, so the other connections are probably dead, too.
                self._drop_idle()
            raise _silent(timeout) from None
        except (asyncpg.PostgresError, *_BROKEN) as error:
            failure = store_error(error)
            if isinstance(failure, StoreUnavailable) and _code(error) not in _PASSING:
                self._drop_idle()
            raise failure from error
        finally:
            seats.release()

    async def _seat(self, timeout: float) -> asyncio.Semaphore:
        """Wait for a free connection. Raises `StoreUnavailable` if no step gets an answer for `timeout` seconds."""
        task, loop = asyncio.current_task(), asyncio.get_running_loop()
        seats = self._seats
        self._waiting.add(task)
        try:
            while True:
                began = loop.time()
                try:
                    async with patiently(timeout):
                        await seats.acquire()
                    return seats
                except TimeoutError:
                    if self._closed or self._answered_at < began:
                        raise _silent(timeout) from None
        finally:
            self._waiting.discard(task)

    def unsent(self, task: asyncio.Task[Any]) -> bool:
        """Whether this task still waits for a connection. Then it has sent nothing and may be cancelled."""
        return task in self._waiting

    async def _use(self, call: Callable[[Any], Awaitable[Any]]) -> Any:
        connection = self._taken() or await self._connected()
        self._busy.add(connection)
        answered = False
        try:
            found = await call(connection)
            answered = True
            return found
        except asyncpg.PostgresError as error:
            answered = not _code(error).startswith(_NOT_SERVING) and _code(error) != "25006"
            raise
        finally:
            if answered:
                self._answered_at = asyncio.get_running_loop().time()
            if connection not in self._busy:
                pass  # after a fork: a copy of the parent's connection
            elif answered and not self._closed and not connection.is_closed():
                self._put_by(connection)
            else:
                connection.terminate()
            self._busy.discard(connection)

    async def _connected(self) -> Any:
        try:
            return await self._connect()
        except (asyncpg.PostgresError, *_BROKEN, Misuse):
            raise
        except Exception as error:
            # An error of the user's function, which may fetch a password, or of asyncpg, which parses the URL. Its text
            # may be secret, and a chained error would show it in every traceback.
            raise StoreUnavailable(f"no connection to the database: {_place_of(error)}") from None

    def _taken(self) -> Any | None:
        while self._idle:
            # Take the most recently used one, so that unneeded connections become idle at the other end and are closed.
            connection, _ = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _put_by(self, connection: Any) -> None:
        loop = asyncio.get_running_loop()
        self._idle.append((connection, loop.time()))
        if self._reaper is None:
            self._reaper = loop.call_later(self._idle_for, self._reap)

    def _reap(self) -> None:
        """Close the connections that were unused for `idle_for` seconds."""
        loop, self._reaper = asyncio.get_running_loop(), None
        while self._idle:
            due = self._idle[0][1] + self._idle_for
            if due > loop.time():
                self._reaper = loop.call_at(due, self._reap)
                return
            connection, _ = self._idle.pop(0)
            # Close it in the background, at most for `_CLOSE_PATIENCE`: it sends a last message to the server.
            task = loop.create_task(_closed(connection), name="stampede_guard closes an idle connection")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.terminate()

    async def aclose(self) -> None:
        """Close all connections. Running steps fail with `StoreUnavailable`."""
        self._closed = True
        if self._reaper is not None:
            self._reaper.cancel()
        idle, self._idle = self._idle, []
        for connection in [*self._busy]:
            connection.terminate()
        for connection, _ in idle:
            await _closed(connection)
        if self._closing:
            await asyncio.wait(set(self._closing))

    def abandon(self) -> None:
        """Called in a forked child. The sockets belong to the parent; the child must not write to them or end them."""
        for connection in [*(idle for idle, _ in self._idle), *self._busy]:
            let_go_after_fork(connection)
        self._idle, self._busy = [], set()
        # Timers and tasks belong to the parent's loop.
        self._waiting, self._closing, self._reaper = set(), set(), None
        self._seats = asyncio.Semaphore(self._size)


def _silent(seconds: float) -> StoreUnavailable:
    return StoreUnavailable(f"no answer from the database within {seconds:g} s")


async def _closed(connection: Any) -> None:
    try:
        await connection.close(timeout=_CLOSE_PATIENCE)
    except (TimeoutError, asyncpg.PostgresError, *_BROKEN):
        connection.terminate()


_kept_after_fork: list[Any] = []


def let_go_after_fork(connection: Any) -> None:
    """Let go of the copied socket of a connection of asyncpg."""
    transport = getattr(connection, "_transport", None)
    raw = transport.get_extra_info("socket") if transport is not None else None
    # Keep the object. Its destructor would write to the file descriptor, which could belong to another file by then.
    _kept_after_fork.append(connection)
    let_go(raw)


def _place_of(error: BaseException) -> str:
    """The type of an error, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__, limit=-1)
    where = "".join(f", raised in {os.path.basename(frame.filename)}:{frame.lineno}" for frame in frames)
    return type(error).__name__ + where


def _code(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def store_error(error: BaseException) -> StoreError:
    """The `StoreError` for an error of asyncpg."""
    code = _code(error)
    if isinstance(error, _BROKEN) or code.startswith(_NOT_SERVING):
        return StoreUnavailable(f"the database cannot be reached: {str(error) or type(error).__name__}")
    if code in _PASSING:
        return NotNow(f"the database could not execute it now: {error}")
    if code in _MISSING:
        return StoreRefused(
            f"the tables of the leases are missing or outdated ({error}): call `await leases.create_schema()` once, "
            "or run stampede_guard/leases/postgres/schema.sql"
        )
    if code in _POOLED:
        return StoreRefused("the database is behind a pooler: connect with statement_cache_size=0")
    return StoreRefused(f"the database refused: {error}", may_pass=code.startswith("5"))
