"""A process of a herd whose first computation never ends.

python -m tests.console_browser.herd URL NAMESPACE; it calls when a line comes, and says when it is served.
"""

from __future__ import annotations

import asyncio
import sys

import redis.asyncio

from stampede_guard import StampedeGuard

# On a busy machine, steps that are not answered within the usual half second would be lost, as documented.
guard = StampedeGuard.from_url(f"{sys.argv[1]}?socket_timeout=30", namespace=sys.argv[2])
client = redis.asyncio.Redis.from_url(sys.argv[1])


@guard.locked_cache(ttl=300, name="shop.slow")
async def slow(number: int) -> int:
    if await client.incr("begun") == 1:
        print("computes", flush=True)
        await asyncio.Event().wait()
    return number


@guard.locked_cache(ttl=300, name="shop.kept")
async def kept(number: int) -> int:
    return number


async def work() -> None:
    async with guard, client:
        # From its first call on, it sees whether somebody watches.
        await kept(1)
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        await slow(7)
        print("served", flush=True)
        await asyncio.to_thread(sys.stdin.read)


asyncio.run(work())
