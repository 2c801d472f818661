"""A computation outlives its caller's request, so it opens a session of its own.

    python examples/resources.py

prints, the first time:

    session opened
    session closed
    counted 70
    counted 70
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator

from stampede_guard import StampedeGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
guard = StampedeGuard.from_url(URL, namespace="resources")


class Session:
    async def count(self, project: int) -> int:
        return project * 10


@contextlib.asynccontextmanager
async def new_session() -> AsyncIterator[Session]:
    print("session opened")
    yield Session()
    print("session closed")


# A call does not give `db`, and FastAPI does not ask for it. A hit opens nothing.
@guard.locked_cache(ttl=300, stale_ttl=3600, resources={"db": new_session})
async def counted(project: int, db: Session) -> int:
    return await db.count(project)


async def main() -> None:
    async with guard:
        print("counted", await counted(7))
        print("counted", await counted(7))


if __name__ == "__main__":
    asyncio.run(main())
