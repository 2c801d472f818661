"""The kill switch and its relatives: per function, per guard, for a block, or by $STAMPEDE_GUARD_MODE.

    python examples/modes.py

prints, the first time:

    on: 3 calls, 1 computation
    bypass, one after the other: 3 calls, 3 computations
    bypass, all at once: 3 calls, 1 computation
    off: 3 calls, 3 computations
    on again: 3 calls, 0 computations
"""

from __future__ import annotations

import asyncio
import os

from stampede_guard import StampedeGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
guard = StampedeGuard.from_url(URL, namespace="modes")
computations = 0


@guard.locked_cache(ttl=300)
async def quality(project: int) -> int:
    global computations
    computations += 1
    await asyncio.sleep(0)
    return project


async def thrice(*, at_once: bool = False) -> str:
    before = computations
    if at_once:
        await asyncio.gather(*[quality(7) for _ in range(3)])
    else:
        for _ in range(3):
            await quality(7)
    count = computations - before
    return f"3 calls, {count} computation{'' if count == 1 else 's'}"


async def main() -> None:
    async with guard:
        print("on:", await thrice())
        guard.mode = "bypass"  # without Redis; one flight per key and process is kept
        print("bypass, one after the other:", await thrice())
        guard.mode = None
        with guard.bypassed():  # the same for this task only
            print("bypass, all at once:", await thrice(at_once=True))
        quality.set_mode("off")  # a plain function
        print("off:", await thrice(at_once=True))
        quality.set_mode(None)
        print("on again:", await thrice())


if __name__ == "__main__":
    asyncio.run(main())
