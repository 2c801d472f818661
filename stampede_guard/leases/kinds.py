"""Leases by back end. A back end's library is imported when its class is first used."""

from __future__ import annotations

import importlib
import inspect
import time
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from typing import Any, Literal, Self, Unpack

from stampede_guard.api.environment import NOT_GIVEN, given_namespace
from stampede_guard.durations import Duration
from stampede_guard.errors import Misuse, PolicyError, UrlError
from stampede_guard.leases import checks, postgres, redis
from stampede_guard.leases.client import Leases, LeasesOptions
from stampede_guard.leases.memory import LeaseRows, MemoryBackend
from stampede_guard.options import ALL, refuse_others, takes_options

__all__ = ["MemoryLeases", "PostgresLeases", "RedisLeases"]


class RedisOptions(LeasesOptions, total=False):
    """Options of `RedisLeases.from_url` and `RedisLeases.from_client`: see `RedisBackend`."""

    eviction: Literal["refuse", "warn"]
    restart: Literal["withhold", "trust"]
    longest_lease: Duration


class PostgresOptions(LeasesOptions, total=False):
    """Options of `PostgresLeases.from_connect`: see `PostgresBackend`."""

    schema: str
    connections: int
    listen: bool | Callable[[], Awaitable[Any]]


class PostgresUrlOptions(LeasesOptions, total=False):
    """Options of `PostgresLeases.from_url`: its own, and those of `asyncpg.connect`."""

    schema: str
    connections: int
    listen: bool | str
    host: str | list[str]
    port: int | list[int]
    user: str
    password: Any
    passfile: Any
    service: str
    servicefile: Any
    database: str
    timeout: float
    max_cached_statement_lifetime: int
    max_cacheable_statement_size: int
    command_timeout: float
    ssl: Any
    direct_tls: bool
    connection_class: Any
    record_class: Any
    server_settings: dict[str, str]
    target_session_attrs: Any
    krbsrvname: str
    gsslib: str


class MemoryLeases(Leases):
    """Leases in this process only, for tests and for single-process programs. `clock` returns seconds since 1970.

    Several `MemoryLeases` may have the same `rows`. They share the leases as several processes share a database.
    """

    @takes_options("MemoryLeases", own=ALL)
    def __init__(
        self,
        *,
        rows: LeaseRows | None = None,
        clock: Callable[[], float] = time.time,
        **options: Unpack[LeasesOptions],
    ) -> None:
        if rows is not None and not isinstance(rows, LeaseRows):
            raise Misuse(f"rows={rows!r}: write the `rows` of another MemoryLeases, or omit rows=")
        if not callable(clock):
            raise Misuse(f"clock={clock!r}: write a function that returns seconds since 1970")
        self.rows = LeaseRows(clock) if rows is None else rows
        super().__init__(lambda: MemoryBackend(self.rows), **options)


class _Elsewhere(Leases):
    _keys_by_namespace = False

    @staticmethod
    def _backend() -> Any:
        raise NotImplementedError

    @classmethod
    def _made(cls, way: str, given: Any, options: dict[str, Any]) -> Self:
        ours = {name: options.pop(name) for name in LeasesOptions.__annotations__ if name in options}
        if cls._keys_by_namespace:
            options["namespace"] = given_namespace(ours.get("namespace", NOT_GIVEN))[0]
        backend = cls._backend()
        make = getattr(backend, way)
        # Make one now, so that wrong options raise here. It connects only when it is used.
        make(given, **options)
        return cls(lambda: make(given, **options), **ours)


def _asyncpg() -> Any:
    try:
        return importlib.import_module("asyncpg")
    except ImportError:
        raise Misuse(
            "leases in PostgreSQL need one more package: pip install '.[postgres]' in a clone of the repository"
        ) from None


def _options_of_asyncpg() -> AbstractSet[str]:
    # `statement_cache_size` is not an option: behind a pooler, a prepared statement may meet another connection.
    return inspect.signature(_asyncpg().connect).parameters.keys() - {"dsn", "statement_cache_size"}


class PostgresLeases(_Elsewhere):
    """Leases in a table of a PostgreSQL database. Needs the extra `postgres`."""

    @staticmethod
    def _backend() -> Any:
        return postgres.PostgresBackend

    @classmethod
    @takes_options("PostgresLeases.from_url", own=ALL, passed_on=_options_of_asyncpg)
    def from_url(cls, url: str, **options: Unpack[PostgresUrlOptions]) -> Self:
        """`postgresql://user:password@host/database`. Options: those of `Leases`, and of `PostgresBackend.from_url`.

        Raises `UrlError` for another kind of URL. Raises `Misuse` for an unknown option, or if asyncpg is missing.
        """
        _asyncpg()
        scheme = checks.text(url).partition("://")[0].partition("+")[0]
        if scheme in ("redis", "rediss", "unix", "memory"):
            other = "MemoryLeases()" if scheme == "memory" else "RedisLeases.from_url(...)"
            raise UrlError(
                f"PostgresLeases is for postgresql://user@host/database, not {scheme}://: write {other}"
            )
        listen: object = options.get("listen", True)
        if not isinstance(listen, bool) and "://" not in checks.text(listen):
            raise PolicyError("listen", listen, "write True, False, or a URL past the pooler")
        checks.whole("connections", options.get("connections", 4), least=1)
        return cls._made("from_url", url, dict(options))

    @classmethod
    @takes_options("PostgresLeases.from_connect", own=ALL)
    def from_connect(cls, connect: Callable[[], Awaitable[Any]], **options: Unpack[PostgresOptions]) -> Self:
        """`await connect()` makes a new asyncpg connection for each call, in the event loop that calls it.

        Use it for rotating passwords, cloud tokens and connectors. It runs as part of a request, so it must finish
        within `request_timeout`. Behind a pooler, `connect` must pass `statement_cache_size=0` to asyncpg. Connections
        of a pool are refused. Options: those of `Leases`, and of `PostgresBackend.from_connect`. Raises `Misuse`.
        """
        _asyncpg()
        refuse_others("PostgresLeases.from_connect", options, PostgresOptions.__annotations__)
        checks.whole("connections", options.get("connections", 4), least=1)
        return cls._made("from_connect", connect, dict(options))

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
    @takes_options("RedisLeases", own=ALL)
    def from_url(cls, url: str, **options: Unpack[RedisOptions]) -> Self:
        """`redis://host:6379/0` and `rediss://`. Options: those of `Leases`, and of `RedisBackend.from_url`.

        Raises `UrlError` for another kind of URL, and `Misuse` for an unknown option.
        """
        if checks.text(url).startswith("postgres"):
            raise UrlError(
                "RedisLeases is for redis://host:6379/0, not postgresql://: write PostgresLeases.from_url(...)"
            )
        return cls._checked("from_url", url, options)

    @classmethod
    @takes_options("RedisLeases", own=ALL)
    def from_client(cls, client: Any, **options: Unpack[RedisOptions]) -> Self:
        """Your own `redis.asyncio` `Redis`, `RedisCluster` or `Sentinel(...).master_for(...)`.

        Only its settings are used, never its connections; you close it. Options: those of `Leases`, and of
        `RedisBackend`. Raises `Misuse` for any other object or option.
        """
        return cls._checked("from_client", client, options)

    @classmethod
    def _checked(cls, way: str, given: Any, options: RedisOptions) -> Self:
        refuse_others("RedisLeases", options, RedisOptions.__annotations__)
        made: dict[str, Any] = dict(options)
        if "longest_lease" in options:
            made["longest_lease"] = checks.seconds("longest_lease", options["longest_lease"])
        return cls._made(way, given, made)
