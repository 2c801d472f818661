"""A failing source is asked once, and everybody hears why.

    python examples/errors.py

prints, the first time:

    asking the source
    10 callers: OutOfStock(7)
    another process: OutOfStock(7)
    a moment later, still: OutOfStock(7)
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from stampede_guard import StampedeGuard, register_failure

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
# Two processes, in effect.
here = StampedeGuard.from_url(URL, namespace="errors")
there = StampedeGuard.from_url(URL, namespace="errors")


class OutOfStock(Exception):
    def __init__(self, item: int) -> None:
        super().__init__(item)
        self.item = item


# Not needed here: an exception whose class is imported in both processes arrives as itself if JSON can express it.
# For other exceptions, say how they travel. What cannot travel arrives as ComputeFailed.
register_failure(OutOfStock, lambda error: {"item": error.item}, lambda content: OutOfStock(content["item"]))


async def stock() -> int:
    print("asking the source")
    await asyncio.sleep(0.1)
    raise OutOfStock(7)


async def main() -> None:
    async with here, there:
        callers: list[Any] = [here.get_or_compute("stock:7", stock, error_ttl=5) for _ in range(10)]
        callers.append(there.get_or_compute("stock:7", stock, error_ttl=5))
        *same, other = await asyncio.gather(*callers, return_exceptions=True)
        print(f"{len(same)} callers: {same[0]!r}")
        print(f"another process: {other!r}")
        try:
            await there.get_or_compute("stock:7", stock)  # for error_ttl nobody tries again
        except OutOfStock as error:
            print(f"a moment later, still: {error!r}")


if __name__ == "__main__":
    asyncio.run(main())
