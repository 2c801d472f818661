"""Or it uses the session of the request that computes: then it stays within that request.

    python examples/request_session.py

prints, the first time:

    ann computes
    ann's client has gone, her session is closed
    bob computes
    bob got: counted in bob's session
"""

from __future__ import annotations

import asyncio
import os

from stampede_guard import StampedeGuard

URL = os.environ.get("REDIS_URL", "redis://localhost:6379/0")
guard = StampedeGuard.from_url(URL, namespace="request-session")


class Session:
    def __init__(self, user: str) -> None:
        self.user = user


@guard.locked_cache(ttl=300, unkeyed=("db",))  # the result does not depend on whose session it is
async def counted(project: int, db: Session) -> str:
    print(db.user, "computes")
    await asyncio.sleep(0.2)
    return f"counted in {db.user}'s session"


async def request(user: str) -> None:
    try:
        print(f"{user} got:", await counted(7, Session(user)))
    finally:
        if asyncio.current_task().cancelling():  # type: ignore[union-attr]
            print(f"{user}'s client has gone, her session is closed")


async def main() -> None:
    async with guard:
        ann = asyncio.create_task(request("ann"))
        await asyncio.sleep(0.05)
        bob = asyncio.create_task(request("bob"))
        await asyncio.sleep(0.05)
        ann.cancel()  # her computation ends before her session is closed, and bob takes over with his own
        await asyncio.gather(ann, bob, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main())
