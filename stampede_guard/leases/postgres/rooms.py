"""Connections to PostgreSQL that hold nobody up: few, each statement with a time-out, none used again in doubt.

Not asyncpg's pool: that resets a connection with statements of its own (one of them lets go of every advisory lock),
which behind PgBouncer run on whatever server connection comes next, and waits for them without a time-out.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import asyncpg  # type: ignore[import-untyped]

from stampede_guard.errors import Misuse, StoreError, StoreRefused, StoreUnavailable, UrlError
from stampede_guard.leases.forked import let_go_in_children
from stampede_guard.stores.patience import patiently

__all__ = ["Connect", "Room", "connect_to", "connect_with", "store_error"]

Connect = Callable[[], Awaitable[Any]]
"""Makes an `asyncpg.Connection` with `statement_cache_size=0`."""

_BROKEN = (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)
"""The second is asyncpg's word for a question after the server took its leave, unasked."""
_CLOSE_PATIENCE = 1.0
_NOT_SERVING = ("08", "53", "57")
"""Classes of SQLSTATE: connection, resources, an operator's intervention. Source: PostgreSQL, Appendix A."""
_PASSING = ("25006", "40001", "40P01", "55P03")
"""Read-only (a standby now), serialization, deadlock, lock time-out: nothing was changed; another time it may be."""
_MISSING = ("3F000", "42P01", "42703")
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

    async def connect() -> Any:
        # Prepared statements belong to a server connection, and behind PgBouncer that is another one each time.
        return await asyncpg.connect(dsn, statement_cache_size=0, **settings)

    return connect


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


class Room:
    """At most `size` connections, made when needed. A step waits for one within its own time-out."""

    def __init__(self, connect: Connect, *, size: int) -> None:
        self._connect = connect
        self._size = size
        self._seats = asyncio.Semaphore(size)
        self._idle: list[Any] = []
        self._busy: set[Any] = set()
        self._closed = False
        let_go_in_children(self)

    async def fetch(self, sql: str, *args: object, timeout: float) -> Sequence[Any]:
        """The rows of one statement in autocommit. Raises `StoreUnavailable` or `StoreRefused`.

        A connection whose statement was not answered, for whatever reason, is closed at once.
        """
        rows: Sequence[Any] = await self.use(lambda connection: connection.fetch(sql, *args), timeout=timeout)
        return rows

    async def use(self, call: Callable[[Any], Awaitable[Any]], *, timeout: float) -> Any:
        """As `fetch`, for more than one statement."""
        if self._closed:
            raise StoreUnavailable("the connections to the database are closed")
        try:
            async with patiently(timeout), self._seats:
                return await self._use(call)
        except TimeoutError:
            # What was silent to one is most likely silent to the others.
            self._drop_idle()
            raise StoreUnavailable(f"no answer from the database within {timeout:g} s") from None
        except (asyncpg.PostgresError, *_BROKEN) as error:
            failure = store_error(error)
            if isinstance(failure, StoreUnavailable) and _code(error) not in _PASSING:
                self._drop_idle()
            raise failure from error

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
            if connection not in self._busy:
                pass  # a copy of our parent's
            elif answered and not self._closed and not connection.is_closed():
                self._idle.append(connection)
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
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
        return None

    def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.terminate()

    async def aclose(self) -> None:
        """What is under way fails with `StoreUnavailable`."""
        self._closed = True
        idle, self._idle = self._idle, []
        for connection in [*self._busy]:
            connection.terminate()
        for connection in idle:
            try:
                await connection.close(timeout=_CLOSE_PATIENCE)
            except (TimeoutError, asyncpg.PostgresError, *_BROKEN):
                connection.terminate()

    def abandon(self) -> None:
        """After a fork, in the child: the sockets are the parent's, to whom not a word may be cut short."""
        for connection in [*self._idle, *self._busy]:
            let_go_after_fork(connection)
        self._idle, self._busy = [], set()
        self._seats = asyncio.Semaphore(self._size)


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
        return StoreUnavailable(f"the database did not do it now: {error}")
    if code in _MISSING:
        return StoreRefused(
            f"the tables of the leases are not as they should be ({error}): call `await leases.create_schema()` once, "
            "or run stampede_guard/leases/postgres/schema.sql"
        )
    if code in _POOLED:
        return StoreRefused("a pooler is before the database: connect with statement_cache_size=0")
    return StoreRefused(f"the database refused: {error}", may_pass=code.startswith("5"))
