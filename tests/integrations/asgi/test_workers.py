"""Eight real worker processes of gunicorn: one computation per expiry, in a handler and behind the middleware."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import redis.asyncio

from bench.herd.valkey import free_port
from tests.chaos.journal import Journal
from tests.support import gunicorn

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


@pytest.mark.parametrize("kind", KINDS)
async def test_eight_workers_compute_once_per_expiry(
    kind: str, valkey_url: str, namespace: str, tmp_path: Path
) -> None:
    journal, port = Journal(tmp_path / "journal"), free_port()
    arguments, paths = KINDS[kind]
    child = gunicorn.start(
        "--preload",
        *arguments,
        port=port,
        place=tmp_path,
        SHOP_URL=valkey_url,
        SHOP_NAMESPACE=namespace,
        SHOP_JOURNAL=str(journal.path),
    )
    try:
        async with (
            gunicorn.client_of(port) as client,
            redis.asyncio.Redis.from_url(valkey_url) as store,
            asyncio.timeout(240.0),
        ):
            await gunicorn.all_at_work(client, child, "/who/")
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
