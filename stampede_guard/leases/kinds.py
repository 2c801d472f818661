"""Leases by back end. A back end's library is imported when its class is first used."""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any, Self
from urllib.parse import urlsplit

from stampede_guard.api.environment import NOT_GIVEN, given_namespace
from stampede_guard.errors import Misuse, PolicyError, UrlError
from stampede_guard.leases import checks, postgres, redis
from stampede_guard.leases.client import Leases
from stampede_guard.leases.memory import MemoryBackend, Rows

__all__ = ["MemoryLeases", "PostgresLeases", "RedisLeases"]


class MemoryLeases(Leases):
    """Leases in this process only, for tests and for single-process programs. `clock` returns seconds since 1970.

    Several `MemoryLeases` may have the same `rows`. They share the leases as several processes share a database.
    """

    def __init__(
        self, *, rows: Rows | None = None, clock: Callable[[], float] = time.time, **options: Any
    ) -> None:
        checks.no_other("MemoryLeases", options, ("rows", "clock", *_OURS))
        if rows is not None and not isinstance(rows, Rows):
            raise Misuse(f"rows={rows!r}: write the `rows` of another MemoryLeases, or omit rows=")
        if not callable(clock):
            raise Misuse(f"clock={clock!r}: write a function that returns seconds since 1970")
        self.rows = Rows(clock) if rows is None else rows
        super().__init__(lambda: MemoryBackend(self.rows), **options)


class _Elsewhere(Leases):
    _keys_by_namespace = False

    @staticmethod
    def _backend() -> Any:
        raise NotImplementedError

    @classmethod
    def _made(cls, way: str, given: Any, options: dict[str, Any]) -> Self:
        ours = {name: options.pop(name) for name in _OURS if name in options}
        if cls._keys_by_namespace:
            options["namespace"] = given_namespace(ours.get("namespace", NOT_GIVEN))[0]
        backend = cls._backend()
        make = getattr(backend, way)
        # Make one now, so that wrong options raise here. It connects only when it is used.
        make(given, **options)
        return cls(lambda: make(given, **options), **ours)


class PostgresLeases(_Elsewhere):
    """Leases in a table of a PostgreSQL database. Needs `pip install stampede-guard[postgres]`."""

    @staticmethod
    def _backend() -> Any:
        return postgres.PostgresBackend

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """`postgresql://user:password@host/database`. Options: those of `Leases`, and of `PostgresBackend.from_url`.

        Raises `UrlError` for another kind of URL. Raises `Misuse` for an unknown option, or if asyncpg is missing.
        """
        driver = _asyncpg()
        scheme = checks.text(url).partition("://")[0].partition("+")[0]
        if scheme in ("redis", "rediss", "unix", "memory"):
            other = "MemoryLeases()" if scheme == "memory" else "RedisLeases.from_url(...)"
            raise UrlError(
                f"PostgresLeases is for postgresql://user@host/database, not {scheme}://: write {other}"
            )
        _check_port(url)
        # `statement_cache_size` is not an option: behind a pooler, a prepared statement may meet another connection.
        drivers = inspect.signature(driver.connect).parameters.keys() - {"dsn", "statement_cache_size"}
        others = options.keys() - drivers
        checks.no_other("PostgresLeases (beside what asyncpg.connect takes)", others, (*_OURS, *_POSTGRES))
        if not isinstance(options.get("listen", True), bool) and "://" not in checks.text(options["listen"]):
            raise PolicyError("listen", options["listen"], "write True, False, or a URL past the pooler")
        checks.whole("connections", options.get("connections", 4), least=1)
        return cls._made("from_url", url, options)

    @classmethod
    def from_connect(cls, connect: Callable[[], Awaitable[Any]], **options: Any) -> Self:
        """`await connect()` makes a new asyncpg connection for each call, in the event loop that calls it.

        Use it for rotating passwords, cloud tokens and connectors. It runs as part of a request, so it must finish
        within `request_timeout`. Behind a pooler, `connect` must pass `statement_cache_size=0` to asyncpg. Connections
        of a pool are refused. Options: those of `Leases`, and of `PostgresBackend.from_connect`. Raises `Misuse`.
        """
        _asyncpg()
        checks.no_other("PostgresLeases.from_connect", options, (*_OURS, *_POSTGRES))
        checks.whole("connections", options.get("connections", 4), least=1)
        return cls._made("from_connect", connect, options)

    async def create_schema(self) -> None:
        """Create the missing tables. You may also run the SQL file of the package instead."""
        backend: Any = self.part().backend
        await backend.create_schema()


class RedisLeases(_Elsewhere):
    """Leases in Redis or Valkey."""

    _keys_by_namespace = True

    @staticmethod
    def _backend() -> Any:
        return redis.RedisBackend

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """`redis://host:6379/0` and `rediss://`. Options: those of `Leases`, and of `RedisBackend.from_url`.

        Raises `UrlError` for another kind of URL, and `Misuse` for an unknown option.
        """
        if checks.text(url).startswith("postgres"):
            raise UrlError(
                "RedisLeases is for redis://host:6379/0, not postgresql://: write PostgresLeases.from_url(...)"
            )
        return cls._checked("from_url", url, options)

    @classmethod
    def from_client(cls, client: Any, **options: Any) -> Self:
        """Your own `redis.asyncio` `Redis`, `RedisCluster` or `Sentinel(...).master_for(...)`.

        Only its settings are used, never its connections; you close it. Options: those of `Leases`, and of
        `RedisBackend`. Raises `Misuse` for any other object or option.
        """
        return cls._checked("from_client", client, options)

    @classmethod
    def _checked(cls, way: str, given: Any, options: dict[str, Any]) -> Self:
        checks.no_other("RedisLeases", options, (*_OURS, "eviction", "restart", "longest_lease"))
        checks.seconds("longest_lease", options.get("longest_lease", 0.0))
        return cls._made(way, given, options)


def _asyncpg() -> Any:
    try:
        return importlib.import_module("asyncpg")
    except ImportError:
        raise Misuse(
            "leases in PostgreSQL need one more package: pip install 'stampede_guard[postgres]' (in a clone "
            "'.[postgres]')"
        ) from None


_OURS = ("namespace", "label", "hooks", "world", "owner")
_POSTGRES = ("schema", "connections", "listen")


def _check_port(url: object) -> None:
    """Check the port now: the first request would only report that there is no answer.

    A URL with several hosts is not checked here; asyncpg parses it.
    """
    try:
        where = urlsplit(checks.text(url))
        if "," not in where.netloc:
            _ = where.port
    except ValueError:
        raise UrlError(
            "the port in the database URL must be 1 to 65535: write postgresql://user:password@host:5432/database"
        ) from None
