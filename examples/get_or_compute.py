"""A key of your own instead of a function's arguments.

    python examples/get_or_compute.py

prints, the first time:

    building
    {'rows': 3} {'rows': 3}
    building
"""

from __future__ import annotations

import asyncio
import os

from stampede_guard import StampedeGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")


async def build() -> dict[str, int]:
    print("building")
    return {"rows": 3}


async def main() -> None:
    async with StampedeGuard.from_url(URL, namespace="get-or-compute") as guard:
        first = await guard.get_or_compute("report:7", build, ttl=300)
        second = await guard.get_or_compute("report:7", build, ttl=300)
        print(first, second)

        await guard.invalidate("report:7")
        # With `type` the value comes back as that type (pydantic, dataclass, msgspec.Struct ...).
        await guard.get_or_compute("report:7", build, ttl=300, type=dict[str, int])


if __name__ == "__main__":
    asyncio.run(main())
