"""Four processes of ten callers each, and one cold key: one computation.

    python examples/processes.py

prints, the first time:

    computed 1 time for 40 callers in 4 processes
"""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ProcessPoolExecutor

from stampede_guard import StampedeGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")


async def worker() -> tuple[int, int]:
    """How many callers this process served, and how often it computed for them."""
    computations = 0

    async def report() -> str:
        nonlocal computations
        computations += 1
        await asyncio.sleep(0.5)  # the expensive query
        return "the report"

    async with StampedeGuard.from_url(URL, namespace="processes") as guard:
        callers = [guard.get_or_compute("report:7", report, ttl=60) for _ in range(10)]
        return len(await asyncio.gather(*callers)), computations


def run() -> tuple[int, int]:
    return asyncio.run(worker())


def main() -> None:
    with ProcessPoolExecutor(4) as pool:
        outcomes = [future.result() for future in [pool.submit(run) for _ in range(4)]]
    callers, computations = (sum(numbers) for numbers in zip(*outcomes, strict=True))
    print(f"computed {computations} time for {callers} callers in {len(outcomes)} processes")


if __name__ == "__main__":
    main()
