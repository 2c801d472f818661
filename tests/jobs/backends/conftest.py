"""Every back end of runs, on a time of its own: the servers' real clocks plus what the test has let pass."""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest
import redis

from stampede_guard.jobs.backends import runs_of
from stampede_guard.jobs.backends.memory import MemoryRuns
from stampede_guard.jobs.backends.protocol import RunBackend
from stampede_guard.jobs.backends.redis import backend as redis_runs
from stampede_guard.leases.postgres.backend import PostgresBackend
from stampede_guard.leases.redis.backend import RedisBackend
from stampede_guard.stores.connections.calls import Script
from stampede_guard.stores.redis import RedisStore
from tests.support.leases import LONG

SHIFTED = """
CREATE SCHEMA IF NOT EXISTS shifted;
CREATE TABLE IF NOT EXISTS shifted.moved (seconds float8);
DELETE FROM shifted.moved;
INSERT INTO shifted.moved VALUES (0);
CREATE OR REPLACE FUNCTION shifted.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS
'SELECT pg_catalog.clock_timestamp() + (SELECT seconds FROM shifted.moved) * interval ''1 second''';
"""


class Worlds:
    """Back ends by title, and one time for all of them."""

    def __init__(self, postgres_url: str, valkey_url: str) -> None:
        self._postgres_url = postgres_url
        self._valkey = redis.Redis.from_url(valkey_url)
        self._valkey_url = valkey_url
        self.moved = 0.0
        self.backends: dict[str, RunBackend] = {}
        self._owners: list[Any] = []

    def now(self) -> float:
        return time.time() + self.moved

    async def open(self) -> None:
        connection = await asyncpg.connect(self._postgres_url)
        await connection.execute(SHIFTED)
        await connection.close()
        postgres = PostgresBackend.from_url(
            self._postgres_url,
            schema="shifted_runs",
            server_settings={"search_path": "shifted, pg_catalog, public"},
        )
        await postgres.create_schema()
        self._valkey.set("moved", "0")
        store = RedisStore.from_url(self._valkey_url, deadline=LONG)
        valkey = RedisBackend(store, namespace=uuid.uuid4().hex, restart="trust")
        self._owners = [postgres, valkey]
        self.backends = {
            "memory": MemoryRuns(clock=self.now),
            "postgres": runs_of(postgres),
            "valkey": runs_of(valkey),
        }

    async def advance(self, seconds: float) -> None:
        self.moved += seconds
        self._valkey.set("moved", str(round(self.moved * 1_000_000)))
        await self._owners[0].room.fetch(
            "UPDATE shifted.moved SET seconds = $1::float8", self.moved, timeout=LONG
        )

    async def aclose(self) -> None:
        for owner in self._owners:
            await owner.aclose()
        self._valkey.close()


@pytest.fixture(scope="module")
def shifted_scripts() -> Iterator[None]:
    """The scripts' time can be moved, by a key that they read."""
    scripts = [found for found in vars(redis_runs).values() if isinstance(found, Script)]
    kept = [(script, script.text, script.digest) for script in scripts]
    line = b"tonumber(time[1]) * 1000000 + tonumber(time[2])"
    for script in scripts:
        assert line in script.text
        script.text = script.text.replace(line, line + b" + tonumber(redis.call('GET', 'moved') or '0')")
        script.digest = hashlib.sha1(script.text, usedforsecurity=False).hexdigest().encode()
    yield
    for script, text, digest in kept:
        script.text, script.digest = text, digest


@pytest.fixture
async def worlds(shifted_scripts: None, postgres_url: str, valkey_url: str) -> AsyncIterator[Worlds]:
    made = Worlds(postgres_url, valkey_url)
    await made.open()
    yield made
    await made.aclose()


@pytest.fixture(scope="module")
def worlds_of_the_run(
    shifted_scripts: None, postgres_url: str, valkey_url: str
) -> Iterator[tuple[asyncio.Runner, Worlds]]:
    with asyncio.Runner() as runner:
        made = Worlds(postgres_url, valkey_url)
        runner.run(made.open())
        yield runner, made
        runner.run(made.aclose())
