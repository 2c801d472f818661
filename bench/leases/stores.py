"""The two stores that are measured, each a server of this run alone, and what they count of themselves."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import AsyncIterator
from typing import Any, Protocol

import asyncpg  # type: ignore[import-untyped]
import redis.asyncio

from bench.herd.postgres import PostgresServer
from bench.herd.valkey import ValkeyServer
from stampede_guard.leases import PostgresLeases, RedisLeases
from stampede_guard.leases.postgres.connections import Connections

__all__ = ["Measured", "OnPostgres", "OnRedis", "opened"]

JOB = "bench:tick"


class Measured(Protocol):
    name: str

    def leases(self, **options: Any) -> Any: ...

    async def statements(self) -> int:
        """How many steps the server has carried out so far."""

    async def connections(self) -> int:
        """Of leases, at this moment."""

    async def fill(self, runs: int, *, rare: int) -> None:
        """A job with `runs` ended runs. The oldest `rare` of them have failed."""

    async def watch(self) -> None:
        """Forget the longest step."""

    async def longest(self) -> tuple[float, float] | None:
        """Seconds of a step, the median, and of the longest one, by the server's own clock; if it tells."""


class OnRedis:
    name = "Valkey"

    def __init__(self, url: str) -> None:
        self.url = url
        self.client = redis.asyncio.Redis.from_url(url)

    def leases(self, **options: Any) -> RedisLeases:
        return RedisLeases.from_url(self.url, namespace="bench", restart="trust", **options)

    async def statements(self) -> int:
        stats = await self.client.info("commandstats")
        return sum(stats.get(f"cmdstat_{name}", {"calls": 0})["calls"] for name in ("eval", "evalsha"))

    async def connections(self) -> int:
        # Our own one is among them.
        return len(await self.client.client_list()) - 1

    async def fill(self, runs: int, *, rare: int) -> None:
        newest, tag = round(time.time()) * 1000 - 10_000, f"{{{JOB}.job}}:"
        job = json.loads(await self.client.get(f"{tag}job"))
        await self.client.set(f"{tag}job", json.dumps(job | {"pruned_to": "0"}))
        script = self.client.register_script(_FILL)
        keys = [tag + word for word in ("runs", "slots", "completed", "failed")]
        for begin in range(0, runs, 500):
            await script(keys=keys, args=[newest, begin, min(begin + 500, runs), runs - rare])

    async def watch(self) -> None:
        await self.client.config_set("slowlog-log-slower-than", 0)
        await self.client.config_set("slowlog-max-len", 5_000)
        await self.client.slowlog_reset()

    async def longest(self) -> tuple[float, float]:
        found = await self.client.slowlog_get(5_000)
        await self.client.config_set("slowlog-log-slower-than", -1)
        scripts = sorted(entry["duration"] for entry in found if entry["command"][:4].upper() == b"EVAL")
        return scripts[len(scripts) // 2] / 1e6, scripts[-1] / 1e6


_FILL = """
for number = tonumber(ARGV[2]), tonumber(ARGV[3]) - 1 do
  local slot = string.format('%.0f', tonumber(ARGV[1]) - number * 1000)
  local rare = number >= tonumber(ARGV[4])
  redis.call('HSET', KEYS[1], slot, cjson.encode({
    slot = slot, run = 'r', outcome = rare and 'failed' or 'completed', attempt = '1', attempts = '1',
    alive_until = '0', started_at = slot .. '000', owner = '', token = '1', finished_at = slot .. '000',
    error = '', counters = '{}',
  }))
  redis.call('ZADD', KEYS[2], slot, slot)
  redis.call('ZADD', KEYS[rare and 4 or 3], slot, slot)
end"""


class OnPostgres:
    name = "PostgreSQL"

    def __init__(self, url: str) -> None:
        self.url = url
        self.admin: Any = None
        self.used = 0

    async def begin(self) -> None:
        self.admin = await asyncpg.connect(self.url, server_settings={"application_name": "bench"})
        leases = self.leases()
        await leases.create_schema()
        await leases.aclose()
        used = Connections.use

        def counted(room: Connections, call: Any, **options: Any) -> Any:
            self.used += 1
            return used(room, call, **options)

        # The server's own counts have its background processes in them.
        Connections.use = counted  # type: ignore[method-assign]

    def leases(self, **options: Any) -> PostgresLeases:
        return PostgresLeases.from_url(self.url, namespace="bench", **options)

    async def statements(self) -> int:
        return self.used

    async def connections(self) -> int:
        found: int = await self.admin.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stampede_guard leases'"
        )
        return found

    async def fill(self, runs: int, *, rare: int) -> None:
        await self.admin.execute("UPDATE stampede_guard.jobs SET pruned_to = 0 WHERE name = $1", JOB)
        await self.admin.execute(
            """INSERT INTO stampede_guard.runs (job, slot, run, outcome, attempt, attempts, finished_at)
            SELECT $1, $2 - number * 1000, 'r', CASE WHEN number >= $4 THEN 'failed' ELSE 'completed' END, 1, 1,
                clock_timestamp()
            FROM generate_series(0::bigint, $3 - 1) AS numbers (number)""",
            JOB,
            round(time.time()) * 1000 - 10_000,
            runs,
            runs - rare,
        )
        await self.admin.execute("ANALYZE stampede_guard.runs")

    async def watch(self) -> None: ...

    async def longest(self) -> None: ...


@contextlib.asynccontextmanager
async def opened(which: str) -> AsyncIterator[OnRedis | OnPostgres]:
    if which == "redis":
        with ValkeyServer() as valkey:
            on_redis = OnRedis(valkey.url)
            try:
                yield on_redis
            finally:
                await on_redis.client.aclose()
    else:
        with PostgresServer() as postgres:
            on_postgres = OnPostgres(postgres.url)
            await on_postgres.begin()
            try:
                yield on_postgres
            finally:
                await on_postgres.admin.close()
