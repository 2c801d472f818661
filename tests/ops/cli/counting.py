"""A process of a fleet for the test of `stats`. It prints what it did itself: calls and computations, per function."""

from __future__ import annotations

import asyncio
import collections
import json
import sys

from stampede_guard import StampedeGuard

url, namespace, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
guard = StampedeGuard.from_url(url, namespace=namespace, stats=True)
calls: collections.Counter[str] = collections.Counter()
computed: collections.Counter[str] = collections.Counter()


@guard.locked_cache(ttl=300, name="shop.quality")
async def quality(project: int) -> int:
    computed["shop.quality"] += 1
    await asyncio.sleep(0)
    return project


@guard.locked_cache(ttl=300, error_ttl=0, name="shop.broken")
async def broken(project: int) -> int:
    computed["shop.broken"] += 1
    raise LookupError(project)


@guard.locked_cache(ttl=300, name="shop.plain")
def plain(project: int) -> int:
    computed["shop.plain"] += 1
    return project


async def work() -> None:
    async with guard:
        for project in range(5):
            callers = 20 + number
            await asyncio.gather(*(quality(project) for _ in range(callers)))
            calls["shop.quality"] += callers
        for _ in range(3):
            await asyncio.gather(broken(number), return_exceptions=True)
            calls["shop.broken"] += 1


asyncio.run(work())
for each in range(4):
    plain(each)
    calls["shop.plain"] += 1
# The part of plain functions is closed, and sends its sums, when the process ends.
print(json.dumps({"calls": calls, "computations": computed}))
