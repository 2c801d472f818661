"""A tenant in a ContextVar: named, it is seen by the computation and part of the key; unnamed, it is neither.

    python examples/context.py

prints, the first time:

    acme: 3 projects of acme
    umbrella: 3 projects of umbrella
    a computation that does not name it sees: nobody
"""

from __future__ import annotations

import asyncio
import os
from contextvars import ContextVar

from stampede_guard import StampedeGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
guard = StampedeGuard.from_url(URL, namespace="context")
tenant: ContextVar[str] = ContextVar("tenant", default="nobody")


@guard.locked_cache(ttl=300, context=(tenant,))
async def projects() -> str:
    return f"3 projects of {tenant.get()}"


@guard.locked_cache(ttl=300)
async def careless() -> str:
    # Other tenants are served this value too, so it is not computed in the context of the one who asked first.
    return tenant.get()


async def main() -> None:
    async with guard:
        for name in ("acme", "umbrella"):
            tenant.set(name)
            print(f"{name}: {await projects()}")
        print("a computation that does not name it sees:", await careless())


if __name__ == "__main__":
    asyncio.run(main())
