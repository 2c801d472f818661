"""Your own redis-py client: its URL, TLS, user and credential provider are used, its connection pool is not.

    python examples/own_client.py

prints, the first time:

    computing
    value value
    your own commands still work: True
"""

from __future__ import annotations

import asyncio
import os

from redis.asyncio import Redis

from stampede_guard import Policy, StampedeGuard, configure, locked_cache

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")


@locked_cache()  # the guard comes later: `configure` is for functions decorated before it, too
async def value() -> str:
    print("computing")
    return "value"


async def main() -> None:
    async with Redis.from_url(URL, max_connections=1) as client:
        async with StampedeGuard(client, namespace="own-client", policy=Policy(ttl=300)) as guard:
            configure(guard)
            print(await value(), await value())
        print("your own commands still work:", await client.ping())


if __name__ == "__main__":
    asyncio.run(main())
