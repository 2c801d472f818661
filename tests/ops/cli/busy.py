"""A process of a fleet for the test of `top`. It calls until its standard input ends."""

from __future__ import annotations

import asyncio
import sys

from stampede_guard import StampedeGuard

guard = StampedeGuard.from_url(sys.argv[1], namespace=sys.argv[2])


@guard.locked_cache(ttl=0.5, name="shop.quality")
async def quality(project: int) -> int:
    await asyncio.sleep(0.01)
    return project


@guard.locked_cache(ttl=300, error_ttl=0, name="shop.broken")
async def broken(project: int) -> int:
    raise LookupError(project)


async def work() -> None:
    ended = asyncio.ensure_future(asyncio.to_thread(sys.stdin.read))
    async with guard:
        await quality(7)
        print("ready", flush=True)
        while not ended.done():
            await asyncio.gather(quality(7), quality(7), quality(8))
            await asyncio.gather(broken(1), return_exceptions=True)
            await asyncio.wait({ended}, timeout=0.02)


asyncio.run(work())
