"""The service of `make demo` on a small, slow table, with users, and every fault that the metrics of a cache know.

The faults are real: a locked table, cancelled queries, a server without memory, a server that is away.
"""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import asyncpg  # type: ignore[import-untyped]
import pytest

from bench.herd.database import MARK
from bench.herd.postgres import PostgresServer
from bench.herd.settings import AppSettings
from bench.herd.valkey import ValkeyServer

__all__ = ["WORKERS", "Demo", "demo", "have_every_fault"]

ROOT = Path(__file__).resolve().parents[2]
SEED = (ROOT / "bench" / "herd" / "seed.sql").read_text("utf-8")
ROWS = 1_000
SLOW = """
ALTER TABLE herd_items RENAME TO few_items;
CREATE VIEW herd_items AS WITH slow AS MATERIALIZED (SELECT pg_sleep(0.2)) SELECT few_items.* FROM slow, few_items;
"""
"""Few rows for as long as many would take, because eight workers share the processors of a test with all else."""
USERS = 16
PAUSE = 0.05
WORKERS = 8
TTL = 0.5
PATIENCE = 60.0


class Demo(NamedTuple):
    """`namespace`: of its cache, for commands. `resting`: set to send the users away."""

    url: str
    namespace: str
    database: PostgresServer
    redis: ValkeyServer
    resting: threading.Event

    @property
    def settings(self) -> AppSettings:
        """What its workers know."""
        return AppSettings(
            mode="guard",
            database_url=self.database.url,
            redis_url=self.redis.url,
            namespace=self.namespace,
            ttl=TTL,
            stale_ttl=0.0,
        )

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def send(self, method: str) -> None:
        urllib.request.urlopen(
            urllib.request.Request(f"{self.url}/quality", method=method), timeout=PATIENCE
        ).close()

    def metrics(self) -> str:
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=PATIENCE) as answer:
            return str(answer.read().decode())

    def command(self, *arguments: str) -> None:
        told = ["--url", self.redis.url, "--namespace", self.namespace]
        subprocess.run(
            [sys.executable, "-m", "stampede_guard", *arguments, *told],
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        )


@contextlib.contextmanager
def demo() -> Iterator[Demo]:
    """Eight workers in mode `guard`, asked all the time."""
    with PostgresServer() as database, ValkeyServer() as redis:
        asyncio.run(fill(database.url))
        process = subprocess.Popen(
            [sys.executable, "-m", "bench.herd.serve", "--port", "0", "--ttl", str(TTL)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
            env={
                **os.environ,
                "DATABASE_URL": database.url,
                "REDIS_URL": redis.url,
                # Shorter than by default, so that callers beside a slow holder need not wait half a minute.
                "STAMPEDE_GUARD_WAIT_TIMEOUT": "1",
                # A full server keeps values up to this size. So it keeps none.
                "STAMPEDE_GUARD_INLINE_BYTES": "1",
            },
        )
        resting = threading.Event()
        users: list[threading.Thread] = []
        try:
            assert process.stdout is not None
            said = ""
            for line in process.stdout:
                said += line
                if "Ctrl-C" in line:
                    break
            url, namespace = (
                re.search(r"--host (\S+)$", said, re.M),
                re.search(r"--namespace (\S+)$", said, re.M),
            )
            assert url is not None and namespace is not None, said
            users = [threading.Thread(target=ask, args=(url[1], resting)) for _ in range(USERS)]
            for user in users:
                user.start()
            yield Demo(url[1], namespace[1], database, redis, resting)
        finally:
            resting.set()
            for user in users:
                user.join()
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)


async def fill(url: str) -> None:
    connection = await asyncpg.connect(url)
    await connection.execute(SEED.replace("1400000", str(ROWS)).replace(":scored_percent", "80"))
    await connection.execute(SLOW)
    await connection.close()


def ask(url: str, resting: threading.Event) -> None:
    """One user. Each has a connection of its own, so the kernel spreads them over the workers."""
    host = url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=PATIENCE)
    while not resting.wait(PAUSE):
        try:
            connection.request("GET", "/quality")
            connection.getresponse().read()
        except (OSError, http.client.HTTPException):
            connection.close()


def until(happened: Callable[[], object], what: str) -> None:
    for _ in range(600):
        if happened():
            return
        threading.Event().wait(0.1)
    pytest.fail(f"the demo's workers never had this: {what}")


def have_every_fault(shop: Demo) -> None:
    """Each fault lasts until the metrics have it."""

    def counted(metric: str, labels: str = "") -> Callable[[], object]:
        pattern = re.compile(rf"^stampede_guard_{metric}\{{.*{labels}.*\}} ([1-9].*)$", re.M)
        return lambda: pattern.search(shop.metrics())

    shop.send("POST")
    shop.send("DELETE")
    asyncio.run(
        slow_and_cancelled(shop, counted("fallbacks_total"), counted("computations_total", 'outcome="error"'))
    )
    with shop.redis.client() as client:
        client.config_set("maxmemory", "1")
        until(counted("not_stored_total"), "values that are not stored")
        client.config_set("maxmemory", "0")
    shop.redis.stop()
    until(counted("breaker_changes_total", 'state="open"'), "a store that is away")
    shop.redis.start()
    until(counted("breaker_changes_total", 'state="closed"'), "a store that is back")
    # In this mode each call runs its query, so it ends by itself.
    shop.command("mode", "*", "shadow", "--for", "2s", "--force")
    until(counted("shadow_total"), "mode shadow")


async def slow_and_cancelled(
    shop: Demo, fallbacks: Callable[[], object], errors: Callable[[], object]
) -> None:
    """While the table is locked, callers run out of time. Then the database cancels the queries that wait for it."""
    connection = await asyncpg.connect(shop.database.url)
    async with connection.transaction():
        await connection.execute("LOCK TABLE herd_items")
        await asyncio.to_thread(until, fallbacks, "a fallback beside a slow holder")

        def cancelled() -> object:
            asyncio.run(cancel(shop.database.url))
            return errors()

        await asyncio.to_thread(until, cancelled, "a computation that fails")
    await connection.close()


async def cancel(url: str) -> None:
    connection = await asyncpg.connect(url)
    waiting = "strpos(query, $1) > 0 AND wait_event_type = 'Lock'"
    await connection.execute(f"SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE {waiting}", MARK)
    await connection.close()
