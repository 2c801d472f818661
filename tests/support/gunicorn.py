"""Eight worker processes of gunicorn, and requests that reach all of them."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx
import psutil  # type: ignore[import-untyped]

from bench.herd import processes

__all__ = ["WORKERS", "all_at_work", "client_of", "clients_of_each", "start"]

ROOT = Path(__file__).resolve().parents[2]
WORKERS = 8


def start(*arguments: str, port: int, place: Path, **environment: str) -> processes.Child:
    """Start them with these arguments and variables. They log into a file in `place`."""
    options = [
        "--workers",
        f"{WORKERS}",
        "--bind",
        f"127.0.0.1:{port}",
        "--timeout",
        "600",
        "--keep-alive",
        "600",
    ]
    return processes.start(
        [sys.executable, "-m", "gunicorn", *options, *arguments],
        log=place / "gunicorn.log",
        cwd=ROOT,
        # Some versions put a control socket into the home directory.
        env={**os.environ, "HOME": str(place), **environment},
    )


def client_of(port: int, *, connections: int = 0) -> httpx.AsyncClient:
    """So many of its connections are used again. With 0, any worker may take each request."""
    return httpx.AsyncClient(
        base_url=f"http://127.0.0.1:{port}",
        timeout=240.0,
        trust_env=False,
        limits=httpx.Limits(max_keepalive_connections=connections),
        verify=False,
    )


async def all_at_work(client: httpx.AsyncClient, child: processes.Child, path: str = "/who") -> None:
    """Return when each worker has answered. `path` answers with the number of its process."""
    await _each_in_turn(child, lambda: client.get(path))


@asynccontextmanager
async def clients_of_each(
    port: int, child: processes.Child, path: str = "/who"
) -> AsyncIterator[list[httpx.AsyncClient]]:
    """A client of each worker. The workers must keep connections, so no sync ones."""
    async with AsyncExitStack() as stack:
        clients: list[httpx.AsyncClient] = []

        async def ask() -> httpx.Response:
            clients.append(await stack.enter_async_context(client_of(port, connections=1)))
            return await clients[-1].get(path)

        await _each_in_turn(child, ask)
        yield clients[-WORKERS:]


async def _each_in_turn(child: processes.Child, ask: Callable[[], Awaitable[httpx.Response]]) -> None:
    """The kernel gives a new connection to any worker that waits. So a worker that has answered stands still."""
    answered: list[int] = []
    try:
        while len(answered) < WORKERS:
            assert child.running, child.last_words()
            try:
                answer = await ask()
            except httpx.ConnectError:
                assert not answered, child.last_words()
                await asyncio.sleep(0.05)  # no event tells that a port is listened on
                continue
            assert answer.status_code == 200, child.last_words()
            answered.append(int(answer.text))
            os.kill(answered[-1], signal.SIGSTOP)
            while psutil.Process(answered[-1]).status() != psutil.STATUS_STOPPED:  # noqa: ASYNC110
                await asyncio.sleep(0.001)
    finally:
        for worker in answered:
            os.kill(worker, signal.SIGCONT)
    assert len(set(answered)) == WORKERS
