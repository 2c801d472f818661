"""A holder that is too slow: its waiters are patient, then one of them computes for all of them.

    python examples/waiting.py

prints, the first time:

    a fallback computes, beside the slow holder
    4 waiters have: from the fallback
    without a fallback: WaitTimeout, come back in 1 s
"""

from __future__ import annotations

import asyncio
import os

from stampede_guard import StampedeGuard, WaitTimeout

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
# Two processes, in effect.
holder = StampedeGuard.from_url(URL, namespace="waiting")
waiters = StampedeGuard.from_url(URL, namespace="waiting")
started = asyncio.Event()


async def slow() -> str:
    started.set()
    await asyncio.sleep(2)
    return "from the holder"


async def fast() -> str:
    print("a fallback computes, beside the slow holder")
    return "from the fallback"


async def main() -> None:
    async with holder, waiters:
        slowly = asyncio.gather(*[holder.get_or_compute(key, slow) for key in ("report:1", "report:2")])
        await started.wait()

        callers = [
            waiters.get_or_compute("report:1", fast, wait_timeout=0.3, fallback_limit=1) for _ in range(4)
        ]
        values = await asyncio.gather(*callers)
        print(len(values), "waiters have:", *set(values))

        try:
            await waiters.get_or_compute("report:2", fast, wait_timeout=0.3, fallback_limit=0)
        except WaitTimeout as error:  # guard.install(app) makes it a 503 with Retry-After
            print(f"without a fallback: {type(error).__name__}, come back in {error.retry_after:g} s")
        await slowly


if __name__ == "__main__":
    asyncio.run(main())
