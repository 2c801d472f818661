"""Eight real worker processes of gunicorn: one computation per expiry, in a handler and behind the middleware."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import httpx
import pytest
import redis.asyncio

from bench.herd import processes
from bench.herd.valkey import free_port
from tests.chaos.journal import Journal

ROOT = Path(__file__).resolve().parents[3]
WORKERS = 8
BURST = 24
WORKER = "tests.integrations.asgi.worker"
KINDS = {
    "asgi": (
        ["--worker-class", "uvicorn.workers.UvicornWorker", f"{WORKER}:asgi"],
        [
            f"{framework}/{what}"
            for framework in ("litestar", "plain", "quart", "starlette")
            for what in ("report", "page")
        ],
    ),
    "aiohttp": (["--worker-class", "aiohttp.GunicornWebWorker", f"{WORKER}:aiohttp()"], ["aiohttp/report"]),
}


@pytest.mark.alone(reason="eight workers must all make progress")
@pytest.mark.parametrize("kind", KINDS)
async def test_eight_workers_compute_once_per_expiry(
    kind: str, valkey_url: str, namespace: str, tmp_path: Path
) -> None:
    journal, port = Journal(tmp_path / "journal"), free_port()
    arguments, paths = KINDS[kind]
    options = ["--workers", f"{WORKERS}", "--bind", f"127.0.0.1:{port}", "--timeout", "120", "--preload"]
    child = processes.start(
        [sys.executable, "-m", "gunicorn", *options, *arguments],
        log=tmp_path / "log",
        cwd=ROOT,
        env={
            **os.environ,
            "HOME": str(tmp_path),  # some versions put a control socket there
            "SHOP_URL": valkey_url,
            "SHOP_NAMESPACE": namespace,
            "SHOP_JOURNAL": str(journal.path),
        },
    )
    # A connection of its own for each request, so that any worker may take it.
    limits = httpx.Limits(max_keepalive_connections=0)
    try:
        async with (
            httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}",
                timeout=120.0,
                trust_env=False,
                limits=limits,
                verify=False,
            ) as client,
            redis.asyncio.Redis.from_url(valkey_url) as store,
            asyncio.timeout(240.0),
        ):
            await _all_at_work(client, child)
            for expiry in range(1, 3):
                for path in paths:
                    answers = await asyncio.gather(*(client.get(f"/{path}/7") for _ in range(BURST)))
                    assert {answer.json()["rows"] for answer in answers} == {7}, child.last_words()
                    assert len(journal.computations(f"{path}/7")) == expiry, path
                async for name in store.scan_iter(f"*{namespace}-*"):
                    await store.delete(name)
        child.stop()
        words = child.last_words(lines=1000)
        assert not any(sign in words for sign in ("Traceback", "[ERROR]", "ERROR:")), words
    finally:
        child.kill()


async def _all_at_work(client: httpx.AsyncClient, child: processes.Child) -> None:
    workers: set[str] = set()
    while len(workers) < WORKERS:
        assert child.running, child.last_words()
        try:
            workers |= {
                answer.text for answer in await asyncio.gather(*(client.get("/who/") for _ in range(40)))
            }
        except httpx.TransportError:
            await asyncio.sleep(0.05)  # no event tells that a port is listened on
