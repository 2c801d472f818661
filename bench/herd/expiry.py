"""One expiry from inside the workers: all users ask at once while somebody watches, and each worker tells what it does.

It runs after the measured load. A watched worker sends a few commands more.
"""

from __future__ import annotations

import asyncio
from urllib.parse import urlsplit

from bench.herd.fleet import Fleet
from stampede_guard.ops.cli.servers import console_at, session_at
from stampede_guard.ops.fleet.herds import HerdStory, herds
from stampede_guard.ops.fleet.viewer import Viewer
from stampede_guard.stores.fleet.series import WATCHED

__all__ = ["record_expiry"]

USERS = 80
TRIES = 3
LOOKS = 20
"""At what the workers tell, in each try."""


async def record_expiry(redis_url: str, namespace: str, fleet: Fleet, ttl: float) -> HerdStory | None:
    """The herd with the most workers of a few expiries. None if nobody told of one."""
    found: list[HerdStory] = []
    told: list[HerdStory] = []
    async with (
        console_at(redis_url) as console,
        session_at(redis_url) as session,
        Viewer(console, session, namespace) as watch,
    ):
        for _ in range(TRIES):
            # Until the entry has expired, and the workers know that somebody watches.
            await asyncio.sleep(ttl + 0.5)
            await asyncio.gather(*(_ask(fleet.url) for _ in range(USERS)))
            # Each worker publishes once in a slot.
            for _ in range(LOOKS):
                await asyncio.sleep(2 * WATCHED.seconds / LOOKS)
                told = [herd for herd in herds(await watch.herd_lines(most=2000)) if herd.stored]
                if any(len(herd.lanes) == fleet.size and herd.callers == USERS for herd in told):
                    break
            found += told
            if any(len(herd.lanes) == fleet.size for herd in found):
                break
    return max(found, key=lambda herd: (len(herd.lanes), herd.callers), default=None)


async def _ask(url: str) -> None:
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        writer.write(b"GET /quality?project=1 HTTP/1.1\r\nHost: herd\r\nConnection: close\r\n\r\n")
        await reader.read()
    finally:
        writer.close()
