"""Leases by back end. A back end's library is imported when the first of its kind is made."""

from __future__ import annotations

import importlib
import time
from collections.abc import Awaitable, Callable
from typing import Any, Self

from stampede_guard.leases.house import Leases
from stampede_guard.leases.memory import MemoryBackend, Rows

__all__ = ["MemoryLeases", "PostgresLeases", "RedisLeases"]


class MemoryLeases(Leases):
    """In this process alone: for tests and for programs of one process. `clock` gives seconds since 1970.

    Others with the same `rows` share them, as several processes share a database.
    """

    def __init__(
        self, *, rows: Rows | None = None, clock: Callable[[], float] = time.time, **options: Any
    ) -> None:
        self.rows = Rows(clock) if rows is None else rows
        super().__init__(lambda: MemoryBackend(self.rows), **options)


class _Elsewhere(Leases):
    _home = ""
    _keys_by_namespace = False

    @classmethod
    def _made(cls, way: str, given: Any, options: dict[str, Any]) -> Self:
        ours = {name: options.pop(name) for name in _OURS if name in options}
        if cls._keys_by_namespace:
            options["namespace"] = ours.get("namespace", "default")
        module, _, name = cls._home.partition(":")
        backend = getattr(importlib.import_module(f"stampede_guard.leases.{module}"), name)
        make = getattr(backend, way)
        # Made once to have a mistake told here; it connects when first used.
        make(given, **options)
        return cls(lambda: make(given, **options), **ours)


class PostgresLeases(_Elsewhere):
    """In a table of a PostgreSQL database. Needs `pip install stampede-guard[postgres]`."""

    _home = "postgres.backend:PostgresBackend"

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """`postgresql://user:password@host/database`. Options: those of `Leases`, and of `PostgresBackend.from_url`."""
        return cls._made("from_url", url, options)

    @classmethod
    def from_connect(cls, connect: Callable[[], Awaitable[Any]], **options: Any) -> Self:
        """`await connect()` makes a connection of asyncpg, each time a new one, in whatever event loop asks for it.

        For passwords that rotate, tokens of a cloud, connectors. It counts as part of a request: what it waits for must
        be there within `request_timeout`. Behind a pooler it gives `statement_cache_size=0` to asyncpg. A pool's
        connections are refused. Options: those of `Leases`, and of `PostgresBackend.from_connect`. Raises `Misuse`.
        """
        return cls._made("from_connect", connect, options)

    async def create_schema(self) -> None:
        """Create the tables that are missing. They may also be created with the SQL that is shipped."""
        backend: Any = self.part().backend
        await backend.create_schema()


class RedisLeases(_Elsewhere):
    """In Redis or Valkey."""

    _home = "redis.backend:RedisBackend"
    _keys_by_namespace = True

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """`redis://host:6379/0` and `rediss://`. Options: those of `Leases`, and of `RedisBackend.from_url`."""
        return cls._made("from_url", url, options)

    @classmethod
    def from_client(cls, client: Any, **options: Any) -> Self:
        """Your own `redis.asyncio` `Redis`, `RedisCluster` or `Sentinel(...).master_for(...)`.

        It lends its settings, never its connections, and is yours to close. Options: those of `Leases`, and of
        `RedisBackend`. Raises `Misuse` for anything else.
        """
        return cls._made("from_client", client, options)


_OURS = ("namespace", "label", "hooks", "world", "owner")
