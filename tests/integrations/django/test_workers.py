"""Eight real worker processes of gunicorn: one computation per expiry, whatever of Django's caches expires."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import psycopg
import pytest
import redis
from django.core.cache import cache

from bench.herd import processes
from bench.herd.valkey import free_port
from stampede_guard.integrations.django import guard_of
from tests.chaos.journal import Journal
from tests.integrations.django.gates import joined, threads, until
from tests.support import gunicorn

ROOT = Path(__file__).resolve().parents[3]
BURST = 24
WHAT = ("total", "page", "fragment", "helper", "view")
WSGI, ASGI = "tests.integrations.django.shop.worker:wsgi", "tests.integrations.django.shop.worker:asgi"
KINDS = {
    "sync": ["--preload", "--worker-class", "sync", WSGI],
    "gthread": ["--preload", "--worker-class", "gthread", "--threads", "4", WSGI],
    "gevent": ["--worker-class", "gevent", WSGI],
    "asgi": ["--preload", "--worker-class", "uvicorn.workers.UvicornWorker", ASGI],
}


@pytest.mark.parametrize("kind", KINDS)
def test_eight_workers_compute_once_per_expiry(
    kind: str, valkey_url: str, postgres_url: str, namespace: str, tmp_path: Path
) -> None:
    """Django's own bridge, asgiref, cannot run two async views at once on greenlets."""
    journal, port = Journal(tmp_path / "journal"), free_port()
    child = gunicorn.start(
        *KINDS[kind],
        port=port,
        place=tmp_path,
        SHOP_URL=valkey_url,
        SHOP_NAMESPACE=namespace,
        SHOP_JOURNAL=str(journal.path),
        SHOP_DATABASE=postgres_url,
    )
    try:
        what = WHAT if kind == "gevent" else (*WHAT, "aview")
        asyncio.run(_ask(port, what, child, journal, lambda: _expire(valkey_url, namespace)))
        until(lambda: connections_of(postgres_url, namespace) == 0)
        child.stop()
        words = child.last_words(lines=1000)
        assert not any(
            sign in words for sign in ("Traceback", "[ERROR]", "WARNING", "flight of the cache")
        ), words
    finally:
        child.kill()


def connections_of(database: str, namespace: str) -> int:
    """How many connections the workers have. Django closes each at the end of its request."""
    with psycopg.connect(database) as connection:
        named = "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s"
        return connection.execute(named, [namespace[-60:]]).fetchone()[0]  # type: ignore[index]


async def _ask(
    port: int, expected: Sequence[str], child: processes.Child, journal: Journal, expire: Callable[[], None]
) -> None:
    client = gunicorn.client_of(port)

    async def get(path: str) -> str:
        answer = await client.get(path)
        assert answer.status_code == 200, child.last_words()
        return answer.text

    async with client, asyncio.timeout(240.0):
        await gunicorn.all_at_work(client, child)
        for expiry in range(1, 3):
            for what in expected:
                assert set(await asyncio.gather(*(get(what) for _ in range(BURST)))) == {what}
                assert len(journal.computations(what)) == expiry, what
            await asyncio.to_thread(expire)


def _expire(store: str, namespace: str) -> None:
    """The lifetimes of all values end."""
    with redis.Redis.from_url(store) as client:
        for pattern in (f"django:{namespace}/*", f"*{namespace}:*"):
            for name in client.scan_iter(pattern):
                client.delete(name)


@pytest.mark.usefixtures("site")
def test_a_killed_leader_is_replaced_by_a_waiter(valkey_url: str, namespace: str, tmp_path: Path) -> None:
    child = processes.start(
        [sys.executable, "-m", "tests.integrations.django.shop.holder"],
        log=tmp_path / "log",
        cwd=ROOT,
        env={**os.environ, "SHOP_URL": valkey_url, "SHOP_NAMESPACE": namespace},
    )
    try:
        until(lambda: "leading" in child.last_words() or not child.running)
        with threads(3) as submit:
            waiters = [submit(lambda: cache.get("template.cache.x", "missing")) for _ in range(3)]
            joined(guard_of(), 3)
            child.kill()
            # One waiter leads now: its `get` is a miss. The end of its request lets the others go on.
            assert [waiter.result() for waiter in waiters] == ["missing"] * 3
    finally:
        child.kill()
