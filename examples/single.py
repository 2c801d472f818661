"""The block form: one caller fleet-wide computes in its own code, all others find the value.

    python examples/single.py

prints, the first time:

    one of 5 builds the report
    5 callers have: the report
"""

from __future__ import annotations

import asyncio
import os

from stampede_guard import StampedeGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
guard = StampedeGuard.from_url(URL, namespace="single")


async def caller() -> str:
    async with guard.single("report:7", type=str, ttl=300) as entry:
        if entry.missing:
            print("one of 5 builds the report")
            await asyncio.sleep(0.1)
            await entry.set("the report")
        # Leave without set(), and the next caller finds it missing. Raise, and those who wait get the error.
        return str(entry.value)


async def main() -> None:
    async with guard:
        reports = await asyncio.gather(*[caller() for _ in range(5)])
        print(len(reports), "callers have:", *set(reports))


if __name__ == "__main__":
    asyncio.run(main())
