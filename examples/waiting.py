"""A holder that is too slow: its waiters are patient, then one of them computes for all of them.

    python examples/waiting.py

prints, the first time:

    a slow process computes
    a fallback computes, beside it
    4 waiters have: from the fallback
    without a fallback: WaitTimeout, come back in 1 s
"""

from __future__ import annotations

import asyncio
import os

from stampede_guard import StampedeGuard, WaitTimeout

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
holder, waiters = (
    StampedeGuard.from_url(URL, namespace="waiting") for _ in range(2)
)  # two processes, in effect


async def slow() -> str:
    print("a slow process computes")
    await asyncio.sleep(2)
    return "from the holder"


async def fast() -> str:
    print("a fallback computes, beside it")
    return "from the fallback"


async def main() -> None:
    async with holder, waiters:
        slowly = [asyncio.create_task(holder.get_or_compute("a", slow))]
        await asyncio.sleep(0.1)
        callers = [waiters.get_or_compute("a", fast, wait_timeout=0.3, fallback_limit=1) for _ in range(4)]
        values = await asyncio.gather(*callers)
        print(len(values), "waiters have:", *set(values))

        async def silent() -> str:
            await asyncio.sleep(2)
            return ""

        slowly.append(asyncio.create_task(holder.get_or_compute("b", silent)))
        await asyncio.sleep(0.1)
        try:
            await waiters.get_or_compute("b", fast, wait_timeout=0.3, fallback_limit=0)
        except WaitTimeout as error:  # guard.install(app) makes it a 503 with Retry-After
            print(f"without a fallback: {type(error).__name__}, come back in {error.retry_after:g} s")
        await asyncio.gather(*slowly)


if __name__ == "__main__":
    asyncio.run(main())
