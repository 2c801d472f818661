"""Eight processes, five callers each, one endpoint whose entry has just expired: how many computations?

    python -m examples.audited_app.herd

asks the server at `$REDIS_URL` and prints one line.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import tempfile
from multiprocessing.synchronize import Barrier

import httpx

PROCESSES, CALLERS = 8, 5
LIBRARIES = ["fastapi", "httpx", "redis.asyncio"]
"""Imported once, where the system can fork: eight processes that import them take most of the time."""
PAGE = "/quality/7"


async def visit(together: Barrier) -> None:
    from examples.audited_app.main import app

    transport = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://shop", timeout=60) as client,
    ):
        await client.get("/openapi.json")  # whatever is made at the first request is made now
        await asyncio.to_thread(together.wait)
        answers = await asyncio.gather(*[client.get(PAGE) for _ in range(CALLERS)])
        assert all(answer.json() == {"project": 7, "good": 80} for answer in answers), answers


def worker(together: Barrier) -> None:
    asyncio.run(visit(together))


def main() -> None:
    can_fork = "forkserver" in multiprocessing.get_all_start_methods()
    starting = multiprocessing.get_context("forkserver" if can_fork else "spawn")
    starting.set_forkserver_preload(LIBRARIES)
    together = starting.Barrier(PROCESSES)
    with tempfile.TemporaryDirectory() as folder:
        log = os.path.join(folder, "log")
        os.environ["AUDITED_APP_LOG"] = log
        workers = [starting.Process(target=worker, args=(together,)) for _ in range(PROCESSES)]
        for process in workers:
            process.start()
        for process in workers:
            process.join()
        with open(log, encoding="utf-8") as file:
            computations = len(file.readlines())
    assert all(process.exitcode == 0 for process in workers)
    print(f"{PAGE}: {PROCESSES * CALLERS} callers in {PROCESSES} processes, computed {computations} times")


if __name__ == "__main__":
    main()
