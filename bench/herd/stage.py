"""The servers that all modes of one run share, calibrated."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import asyncpg  # type: ignore[import-untyped]
import psutil  # type: ignore[import-untyped]
from redis.asyncio import Redis
from redis.exceptions import RedisError

from bench.herd.database import MARK, SEED, SESSION, Calibration, calibrate, ensure_filled
from bench.herd.postgres import PostgresServer
from bench.herd.sampler import can_monitor, process_tree
from bench.herd.valkey import ValkeyServer, product

__all__ = ["Stage", "open_stage"]


@dataclass(frozen=True, slots=True)
class Stage:
    """The servers' addresses and facts, and how to see their processes (None: they are not on this machine)."""

    database_url: str
    database_version: str
    database_pids: Callable[[], Iterable[int]] | None
    query_id: int
    calibration: Calibration
    redis_url: str
    redis_version: str
    redis_pids: Callable[[], Iterable[int]]
    monitored: bool


@asynccontextmanager
async def open_stage(say: Callable[[str], None]) -> AsyncIterator[Stage]:
    """Start what the environment does not give, calibrate, and stop it again at the end."""
    database, valkey = PostgresServer(SEED), ValkeyServer()
    try:
        say("PostgreSQL: starting (the first run also makes 1.4 million rows)")
        database_url = os.environ.get("DATABASE_URL")
        if database_url:
            with _naming("DATABASE_URL"):
                await ensure_filled(database_url)
        else:
            await asyncio.to_thread(database.start)
            database_url = database.url
        say("Redis: starting")
        redis_url = os.environ.get("REDIS_URL")
        redis_pids: Callable[[], Iterable[int]] = tuple
        if redis_url:
            with _naming("REDIS_URL"):
                await _redis_version(redis_url)
        else:
            await asyncio.to_thread(valkey.start)
            redis_url, redis_pids = valkey.url, process_tree(valkey.pid)
        say("The aggregate alone: calibrating")
        yield await _look(database_url, redis_url, redis_pids)
    finally:
        valkey.close()
        database.close()


@contextmanager
def _naming(variable: str) -> Iterator[None]:
    """Say which variable led to a server that does not answer."""
    try:
        yield
    except (OSError, ValueError, RedisError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
        raise RuntimeError(
            f"the server that {variable} names does not answer: {error}; unset it to use our own"
        ) from error


async def _look(database_url: str, redis_url: str, redis_pids: Callable[[], Iterable[int]]) -> Stage:
    connection = await asyncpg.connect(database_url, server_settings=SESSION)
    try:
        calibration = await calibrate(connection)
        query_id = await connection.fetchval(
            "SELECT queryid FROM pg_stat_statements WHERE strpos(query, $1) > 0 ORDER BY calls DESC LIMIT 1",
            MARK,
        )
        version = str(await connection.fetchval("SHOW server_version"))
        backend = await connection.fetchval("SELECT pg_backend_pid()")
        pids = _database_processes(database_url, backend)
    finally:
        await connection.close()
    return Stage(
        database_url=database_url,
        database_version=f"PostgreSQL {version}",
        database_pids=pids,
        query_id=query_id,
        calibration=calibration,
        redis_url=redis_url,
        redis_version=await _redis_version(redis_url),
        redis_pids=redis_pids,
        monitored=await can_monitor(redis_url),
    )


def _database_processes(url: str, backend: int) -> Callable[[], Iterable[int]] | None:
    """The postmaster and its children, if the backend that serves us is a process that we can see."""
    if not any(host in url for host in ("localhost", "127.0.0.1", "[::1]")):
        return None
    try:
        process = psutil.Process(backend)
        postmaster = process.parent()
    except psutil.Error:
        return None
    if "postgres" not in process.name() or postmaster is None:
        return None
    return process_tree(postmaster.pid)


async def _redis_version(url: str) -> str:
    client = Redis.from_url(url)
    try:
        return product(await client.info("server"))
    finally:
        await client.aclose()
