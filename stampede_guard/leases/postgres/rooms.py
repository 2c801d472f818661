"""Connections to PostgreSQL that hold nobody up: few, each statement with a time-out, none used again in doubt.

Not asyncpg's pool: that resets a connection with statements of its own (one of them lets go of every advisory lock),
which behind PgBouncer run on whatever server connection comes next, and waits for them without a time-out.

A step waits for two things, and only the second is the database's: for one of our few connections, and for the answer.
So its time-out begins with the connection. While others are answered it waits in the queue for as long as that takes;
when nobody was answered for a whole time-out the database is silent, and all who wait are told so.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import parse_qs, urlsplit

import asyncpg  # type: ignore[import-untyped]

from stampede_guard.errors import Misuse, StoreError, StoreRefused, StoreUnavailable, UrlError
from stampede_guard.leases.forked import let_go_in_children
from stampede_guard.stores.patience import patiently

__all__ = ["Connect", "NotNow", "Room", "connect_to", "connect_with", "store_error"]

Connect = Callable[[], Awaitable[Any]]
"""Makes an `asyncpg.Connection` with `statement_cache_size=0`."""

APPLICATION_NAME = "stampede_guard leases"
IDLE_FOR = 60.0
"""Seconds after which a connection that nobody used is closed: a process that is idle keeps none for a burst."""

_BROKEN = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""The second is asyncpg's word for a question after the server took its leave, unasked."""
_CLOSE_PATIENCE = 1.0
_NOT_SERVING = ("08", "53", "57")
"""Classes of SQLSTATE: connection, resources, an operator's intervention. Source: PostgreSQL, Appendix A."""
_PASSING = ("25006", "40001", "40P01", "55P03")
"""Read-only (a standby now), serialization, deadlock, lock time-out: nothing was changed; another time it may be."""
_MISSING = ("3F000", "42P01", "42703", "42883")
_POOLED = ("26000", "42P05")
"""A prepared statement that is not there, or is there already: the server's side is another one each time."""


def connect_to(url: str, **settings: Any) -> Connect:
    """Connections to `postgresql://user:password@host:port/database?option=value`; `settings` as `asyncpg.connect`.

    A driver's name in the scheme (`postgresql+asyncpg://`) is left out. Raises `UrlError` for another scheme.
    """
    found = re.fullmatch(r"postgres(?:ql)?(?:\+\w+)?://(.*)", str(url).strip(), re.DOTALL)
    if found is None:
        raise UrlError("write the database's URL as postgresql://user:password@host:port/database")
    dsn = f"postgresql://{found[1]}"

    settings = _named(dsn, settings)

    async def connect() -> Any:
        # Prepared statements belong to a server connection, and behind PgBouncer that is another one each time.
        return await asyncpg.connect(dsn, statement_cache_size=0, **settings)

    return connect


def _named(dsn: str, settings: dict[str, Any]) -> dict[str, Any]:
    """With the name that `pg_stat_activity` shows, unless the user has one of his own."""
    given = settings.get("server_settings") or {}
    own = "application_name" in given or "application_name" in parse_qs(urlsplit(dsn).query)
    if own or os.environ.get("PGAPPNAME"):
        return settings
    return settings | {"server_settings": {"application_name": APPLICATION_NAME, **given}}


def connect_with(connect: Connect) -> Connect:
    """The user's own. Raises `Misuse` for what is no function, and later for what makes no connections to be kept."""
    if not callable(connect):
        raise Misuse(
            "connect is a function without arguments whose awaited result is a new connection of asyncpg: write "
            f"lambda: asyncpg.connect(...), not a {type(connect).__name__}"
        )

    async def checked() -> Any:
        connection = await connect()
        if isinstance(connection, asyncpg.pool.PoolConnectionProxy):
            # The pool would miss it for as long as we keep it, and would wait for it when it is closed.
            connection.terminate()
            raise Misuse("a pool's connections are for others: connect makes one with asyncpg.connect(...)")
        if not isinstance(connection, asyncpg.Connection):
            raise Misuse(f"connect makes connections of asyncpg, not a {type(connection).__name__}")
        return connection

    return checked


class NotNow(StoreUnavailable):
    """The database answered: nothing was changed, because a row was locked, say. Another time it may be."""


class Room:
    """At most `size` connections, made when needed and closed when nobody has used them for `idle_for` seconds.

    Who waits for one is served in order. Waiting is no outage while others are answered.
    """

    def __init__(self, connect: Connect, *, size: int, idle_for: float = IDLE_FOR) -> None:
        self._connect = connect
        self._size = size
        self._idle_for = idle_for
        self._seats = asyncio.Semaphore(size)
        self._idle: list[tuple[Any, float]] = []
        """With the time since which nobody has used it; the oldest stands first."""
        self._busy: set[Any] = set()
        self._waiting: set[asyncio.Task[Any] | None] = set()
        self._answered_at = -math.inf
        self._reaper: asyncio.TimerHandle | None = None
        self._closing: set[asyncio.Task[None]] = set()
        self._closed = False
        let_go_in_children(self)

    async def fetch(self, sql: str, *args: object, timeout: float) -> Sequence[Any]:
        """The rows of one statement in autocommit. Raises `StoreUnavailable` or `StoreRefused`.

        A connection whose statement was not answered, for whatever reason, is closed at once.
        """
        rows: Sequence[Any] = await self.use(lambda connection: connection.fetch(sql, *args), timeout=timeout)
        return rows

    async def use(self, call: Callable[[Any], Awaitable[Any]], *, timeout: float) -> Any:
        """As `fetch`, for more than one statement. `timeout`: seconds, from the moment it has a connection."""
        seats = await self._seat(timeout)
        began = asyncio.get_running_loop().time()
        try:
            if self._closed:
                raise StoreUnavailable("the connections to the database are closed")
            async with patiently(timeout):
                return await self._use(call)
        except TimeoutError:
            if self._answered_at < began:
                # What was silent to one, and to all others meanwhile, is most likely silent on every connection.
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
        """Until one of the connections is ours. Raises `StoreUnavailable` once the database is silent to all."""
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
        """Whether this task still waits for a connection: nothing of its was sent, so it may be cancelled."""
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
                pass  # a copy of our parent's
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
            # Of the user's own: a password that is fetched for each connection, say. Its text may be a secret.
            raise StoreUnavailable(f"no connection to the database: {type(error).__name__}") from error

    def _taken(self) -> Any | None:
        while self._idle:
            # The last one that was used: what nobody needs grows old at the other end.
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
        """Close what nobody has used for long."""
        loop, self._reaper = asyncio.get_running_loop(), None
        while self._idle:
            due = self._idle[0][1] + self._idle_for
            if due > loop.time():
                self._reaper = loop.call_at(due, self._reap)
                return
            connection, _ = self._idle.pop(0)
            # In the background, and for no longer than a moment: it says goodbye to the server.
            task = loop.create_task(_closed(connection), name="stampede_guard closes an idle connection")
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)

    def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.terminate()

    async def aclose(self) -> None:
        """What is under way fails with `StoreUnavailable`."""
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
        """After a fork, in the child: the sockets are the parent's, to whom not a word may be cut short."""
        for connection in [*(idle for idle, _ in self._idle), *self._busy]:
            let_go_after_fork(connection)
        self._idle, self._busy = [], set()
        # Timers and tasks are of the parent's loop.
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
    """The copied socket leads nowhere from now on; its number stays taken until this process ends."""
    transport = getattr(connection, "_transport", None)
    raw = transport.get_extra_info("socket") if transport is not None else None
    # An object that is collected would say goodbye to the server over whatever has that number by then.
    _kept_after_fork.append(connection)
    if raw is None or raw.fileno() < 0:
        return
    nowhere = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    try:
        os.dup2(nowhere, raw.fileno(), inheritable=False)
    finally:
        os.close(nowhere)


def _code(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or "")


def store_error(error: BaseException) -> StoreError:
    """What an error of asyncpg means for who asked."""
    code = _code(error)
    if isinstance(error, _BROKEN) or code.startswith(_NOT_SERVING):
        return StoreUnavailable(f"the database cannot be reached: {str(error) or type(error).__name__}")
    if code in _PASSING:
        return NotNow(f"the database did not do it now: {error}")
    if code in _MISSING:
        return StoreRefused(
            f"the tables of the leases are not as they should be ({error}): call `await leases.create_schema()` once, "
            "or run stampede_guard/leases/postgres/schema.sql"
        )
    if code in _POOLED:
        return StoreRefused("a pooler is before the database: connect with statement_cache_size=0")
    return StoreRefused(f"the database refused: {error}", may_pass=code.startswith("5"))
