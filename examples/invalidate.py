"""A write while a computation is under way: what the computation has read is old, so it is never stored.

    python examples/invalidate.py

prints, the first time:

    read 100
    the price becomes 200
    invalidated: done
    read 200
    who asked afterwards has 200
    the price becomes 300
    read 300
    who refreshed has 300
"""

from __future__ import annotations

import asyncio
import os

from stampede_guard import StampedeGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
guard = StampedeGuard.from_url(URL, namespace="invalidate")
database = {"price": 100}


@guard.locked_cache(ttl=300)
async def price(item: int) -> int:
    seen = database["price"]
    print("read", seen)
    await asyncio.sleep(0.1)
    return seen


def change(new: int) -> None:
    database["price"] = new
    print("the price becomes", new)


async def main() -> None:
    async with guard:
        early = asyncio.create_task(price(7))
        await asyncio.sleep(0.05)

        change(200)
        print(
            "invalidated:", await price.invalidate(7)
        )  # "pending" where Redis is away: it is told when it is back
        print("who asked afterwards has", await price(7))
        await early  # it came before the change, and may have either

        change(300)
        print(
            "who refreshed has", await price.refresh(7)
        )  # others are served the old value until it is there


if __name__ == "__main__":
    asyncio.run(main())
