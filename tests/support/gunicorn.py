"""Eight worker processes of gunicorn, and requests that reach all of them."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

import httpx

from bench.herd import processes

__all__ = ["WORKERS", "all_at_work", "client_of", "start"]

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 8


def start(*arguments: str, port: int, place: Path, **environment: str) -> processes.Child:
    """Start them with these arguments and variables. They log into a file in `place`."""
    options = ["--workers", f"{WORKERS}", "--bind", f"127.0.0.1:{port}", "--timeout", "120"]
    return processes.start(
        [sys.executable, "-m", "gunicorn", *options, *arguments],
        log=place / "gunicorn.log",
        cwd=ROOT,
        # Some versions put a control socket into the home directory.
        env={**os.environ, "HOME": str(place), **environment},
    )


def client_of(port: int) -> httpx.AsyncClient:
    """Each request has a connection of its own, so that any worker may take it."""
    return httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}",
        timeout=120.0,
        trust_env=False,
        limits=httpx.Limits(max_keepalive_connections=0),
        verify=False,
    )


async def all_at_work(client: httpx.AsyncClient, child: processes.Child, path: str = "/who") -> None:
    """Return when each worker has answered. `path` answers with a text that differs between workers."""
    workers: set[str] = set()
    while len(workers) < WORKERS:
        assert child.running, child.last_words()
        try:
            answers = await asyncio.gather(*(client.get(path) for _ in range(40)))
        except httpx.TransportError:
            await asyncio.sleep(0.05)  # no event tells that a port is listened on
            continue
        assert {answer.status_code for answer in answers} == {200}, child.last_words()
        workers |= {answer.text for answer in answers}
