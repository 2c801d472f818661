"""What is watched during a trial: the aggregate in the database, the CPU, the commands that reach Redis."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import asyncpg  # type: ignore[import-untyped]
import psutil  # type: ignore[import-untyped]
from redis.asyncio import Redis
from redis.exceptions import RedisError

from bench.herd.recording import CpuSample, DatabaseSample

__all__ = [
    "CpuSampler",
    "can_monitor",
    "ourselves",
    "process_tree",
    "sample_database",
    "sample_redis_commands",
]

_DATABASE_INTERVAL = 0.05
_CPU_INTERVAL = 0.25
_QUERY = """
WITH running AS (
    SELECT pid, extract(epoch FROM query_start)::float8 AS since
    FROM pg_stat_activity WHERE state = 'active' AND query_id = $1
)
SELECT
    extract(epoch FROM clock_timestamp())::float8 AS now,
    (SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements(false) WHERE queryid = $1) AS calls,
    (SELECT coalesce(array_agg(pid), '{}') FROM running) AS pids,
    (SELECT coalesce(array_agg(since), '{}') FROM running) AS since
"""


async def sample_database(url: str, query_id: int, samples: list[DatabaseSample]) -> None:
    """Append a sample every 50 ms until cancelled. The server's clock is translated to ours."""
    connection = await asyncpg.connect(url, server_settings={"application_name": "herd sampler"})
    try:
        while True:
            row = await connection.fetchrow(_QUERY, query_id)
            now = time.time()
            ours = now - row["now"] if abs(now - row["now"]) > _DATABASE_INTERVAL else 0.0
            running = tuple(
                (pid, round(since + ours, 3)) for pid, since in zip(row["pids"], row["since"], strict=True)
            )
            samples.append(DatabaseSample(now, row["calls"], running))
            await asyncio.sleep(_DATABASE_INTERVAL)
    finally:
        connection.terminate()


async def sample_redis_commands(url: str, times: list[float]) -> None:
    """Append the time of every command that a client sent, until cancelled.

    MONITOR tells a client's commands from those inside its scripts. INFO does not: both `commandstats` and
    `total_commands_processed` count a script and each command in it (Valkey 9.1: an EVAL of ten GETs adds 11).
    """
    client = Redis.from_url(url, socket_timeout=None)  # a naive herd leaves Redis alone for many seconds
    try:
        async with client.monitor() as monitor:
            async for command in monitor.listen():
                if command["client_type"] != "lua":
                    times.append(time.time())  # noqa: PERF401 - others read the list while it grows
    finally:
        await client.aclose()


async def can_monitor(url: str) -> bool:
    """Whether this server lets us see its commands; a managed one may not."""
    client = Redis.from_url(url)
    try:
        async with client.monitor():
            return True
    except RedisError:
        return False
    finally:
        await client.aclose()


@dataclass(slots=True)
class CpuSampler:
    """CPU of the database, of the workers, and of all processes outside the trial."""

    database: Callable[[], Iterable[int]] | None
    app: Callable[[], Iterable[int]]
    rest: Callable[[], Iterable[int]]
    _seen: dict[int, float] = field(default_factory=dict, init=False)

    async def run(self, samples: list[CpuSample]) -> None:
        """Append a sample every 0.25 s until cancelled."""
        busy, last = _busy_seconds(), time.monotonic()
        self._spent([*self._database(), *self.app(), *self.rest()])
        cores = psutil.cpu_count() or 1
        while True:
            await asyncio.sleep(_CPU_INTERVAL)
            before, busy = busy, _busy_seconds()
            started, last = last, time.monotonic()
            capacity = (last - started) * cores
            database, app, rest = (
                min(1.0, self._spent(pids) / capacity)  # ticks of 10 ms may add up to more than there was
                for pids in (self._database(), self.app(), self.rest())
            )
            others = max(0.0, (busy - before) / capacity - database - app - rest)
            samples.append(CpuSample(time.time(), database if self.database else None, app, others))

    def _database(self) -> Iterable[int]:
        return self.database() if self.database else ()

    def _spent(self, pids: Iterable[int]) -> float:
        """CPU seconds of these processes since the last call; a new one counts from its start."""
        total = 0.0
        for pid in pids:
            try:
                times = psutil.Process(pid).cpu_times()
            except psutil.Error:
                continue
            now = times.user + times.system
            total += now - self._seen.get(pid, 0.0)
            self._seen[pid] = now
        return total


def process_tree(root: int) -> Callable[[], list[int]]:
    """A process and its children, looked up anew at every call."""

    def pids() -> list[int]:
        try:
            children = psutil.Process(root).children(recursive=True)
        except psutil.Error:
            return []
        return [root, *(child.pid for child in children)]

    return pids


def ourselves() -> list[int]:
    return [os.getpid()]


def _busy_seconds() -> float:
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    counted_twice = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return float(sum(times) - idle - counted_twice)
