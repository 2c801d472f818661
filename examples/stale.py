"""Nobody waits for a recomputation: the old value is served at once, and refreshed in the background.

    python examples/stale.py

prints, the first time:

    computing version 1
    got version 1
    -- it expires --
    got version 1
    got version 1
    computing version 2
    -- a moment later --
    got version 2
"""

from __future__ import annotations

import asyncio
import itertools
import os

from stampede_guard import StampedeGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
guard = StampedeGuard.from_url(URL, namespace="stale")
versions = itertools.count(1)


@guard.locked_cache(ttl=0.5, stale_ttl=3600)
async def report() -> str:
    version = f"version {next(versions)}"
    print("computing", version)
    await asyncio.sleep(0.1)  # the expensive query
    return version


async def main() -> None:
    async with guard:
        print("got", await report())
        await asyncio.sleep(0.55)
        print("-- it expires --")
        for value in await asyncio.gather(report(), report()):
            print("got", value)
        await asyncio.sleep(0.3)
        print("-- a moment later --")
        print("got", await report())


if __name__ == "__main__":
    asyncio.run(main())
