"""A function that is computed once, however many callers ask for it at once.

    python examples/decorator.py

prints, the first time:

    computing 7
    20 callers, 1 value
    shop:quality:project=7
    computing 7
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass

from stampede_guard import StampedeGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
guard = StampedeGuard.from_url(URL, namespace="shop")


@dataclass(frozen=True)
class Quality:
    project: int
    good: int


@guard.locked_cache(ttl=300, name="quality")
async def quality(project: int) -> Quality:
    print("computing", project)
    await asyncio.sleep(0.1)  # the expensive query
    return Quality(project, good=80)


async def main() -> None:
    async with guard:
        values = await asyncio.gather(*[quality(7) for _ in range(20)])
        print(f"{len(values)} callers, {len(set(values))} value")

        namespace, name, _, arguments = quality.key(7).split(
            ":"
        )  # the third part is a digest of the code's shape
        print(f"{namespace}:{name}:{arguments}")

        await quality.invalidate(7)  # who calls from now on is served nothing older
        await quality(7)


if __name__ == "__main__":
    asyncio.run(main())
