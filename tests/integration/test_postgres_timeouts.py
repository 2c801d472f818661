"""Deadlines on a real PostgreSQL, seen from its own list of what runs."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import asyncpg  # type: ignore[import-untyped]
import pytest

from bench.herd.postgres import PostgresServer
from stampede_guard import ComputeTimeout
from tests.support.gate import until
from tests.support.guards import Guards
from tests.support.sessions import patient

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 60.0
LOCK = 7
"""An advisory lock: whoever asks for it is held for as long as the test has it."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[str]:
    with PostgresServer() as server:
        yield server.url


@pytest.fixture
async def observer(postgres: str) -> AsyncIterator[asyncpg.Connection]:
    connection = await asyncpg.connect(postgres)
    yield connection
    await connection.close()


@pytest.fixture
async def pool(postgres: str) -> AsyncIterator[asyncpg.Pool]:
    async with asyncpg.create_pool(postgres, min_size=0, max_size=4) as pool:
        yield pool


@pytest.fixture
async def guards(valkey_url: str, namespace: str) -> AsyncIterator[Guards]:
    async with Guards(patient(valkey_url), namespace) as guards:
        yield guards


RUNNING = "state = 'active'"


async def active(observer: asyncpg.Connection, text: str, condition: str = RUNNING) -> int:
    """How many queries with this text run right now, the observer's own left out."""
    count: int = await observer.fetchval(
        "SELECT count(*) FROM pg_stat_activity"
        f" WHERE {condition} AND pid <> pg_backend_pid() AND position($1 in query) > 0",
        text,
    )
    return count


async def become(observer: asyncpg.Connection, text: str, count: int, condition: str = RUNNING) -> None:
    """Wait until so many run."""
    async with asyncio.timeout(PATIENCE):
        while await active(observer, text, condition) != count:  # noqa: ASYNC110  # no event tells of it
            await asyncio.sleep(0.01)


async def test_a_query_past_compute_timeout_is_cancelled_on_the_server(
    guards: Guards, pool: asyncpg.Pool, observer: asyncpg.Connection
) -> None:
    guard = guards.guard(compute_timeout=1.0)

    async def endless() -> Any:
        async with pool.acquire() as connection:
            return await connection.fetchval("SELECT pg_sleep(600) /* past its deadline */")

    caller = asyncio.create_task(guard.get_or_compute("k", endless))
    await become(observer, "past its deadline", 1)
    with pytest.raises(ComputeTimeout):
        await asyncio.wait_for(caller, PATIENCE)
    await become(observer, "past its deadline", 0)
    async with pool.acquire() as connection:
        assert await connection.fetchval("SELECT 1") == 1, "the connection can be used again"


async def test_a_query_past_soft_timeout_runs_to_its_end_and_its_value_is_stored(
    guards: Guards, pool: asyncpg.Pool, observer: asyncpg.Connection
) -> None:
    guard = guards.guard(ttl=60, stale_ttl=6000, soft_timeout=0.1, compute_timeout=PATIENCE)
    queries = 0

    async def held() -> Any:
        nonlocal queries
        queries += 1
        async with pool.acquire() as connection:
            # Released with the statement's own transaction.
            return await connection.fetchval(
                f"SELECT {queries} FROM (SELECT pg_advisory_xact_lock_shared({LOCK})) AS held /* slow */"
            )

    assert await guard.get_or_compute("k", held) == 1
    await guards.age(guards.name("k"), 61)
    async with observer.transaction():
        await observer.execute(f"SELECT pg_advisory_xact_lock({LOCK})")
        for _ in range(3):
            assert await asyncio.wait_for(guard.get_or_compute("k", held), PATIENCE) == 1
        await become(observer, "/* slow */", 1)
    await until(lambda: not guard.engine.runtime().flights)
    assert await guard.get_or_compute("k", held) == 2
    assert queries == 2


PROCESS = """
import asyncio, asyncpg, sys

async def query(text, **settings):
    connection = await asyncpg.connect(sys.argv[1], server_settings=settings)
    await connection.fetchval("SELECT pg_sleep(600) " + text)

async def main():
    await asyncio.gather(
        query("/* orphan */"), query("/* limited */", statement_timeout="1s"), return_exceptions=True
    )

asyncio.run(main())
"""


async def test_statement_timeout_ends_the_query_of_a_process_that_was_killed(
    postgres: str, observer: asyncpg.Connection
) -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROCESS, postgres)
    try:
        # Not while it is still parsed: who is killed then has asked for nothing.
        await become(observer, "/* orphan */", 1, f"{RUNNING} AND wait_event = 'PgSleep'")
        await become(observer, "/* limited */", 1, "TRUE")  # on a slow machine it has ended before it is seen
    finally:
        process.kill()
        await process.wait()
    await become(observer, "/* limited */", 0)
    assert await active(observer, "/* orphan */") == 1, (
        "without a time-out the server knows nothing of the kill"
    )
    await observer.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE '%orphan%' AND pid <> pg_backend_pid()"
    )


async def test_the_page_about_time_outs_does_what_it_says(postgres: str, valkey_url: str) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.documents", "docs/times.md", valkey_url,
        env=os.environ | {"DATABASE_URL": postgres}, cwd=ROOT,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    output, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
    assert (process.returncode, output.decode().split("\n")) == (
        0,
        ["the page in en", "{'apple': 7}", "True", "{'secret': 42, 'expires_in': 3600}", ""],
    )
