"""A process that contends for a lease for ever, and writes down each moment at which it believed that it had it.

    python -m tests.leases.contender URL NAMESPACE JOURNAL LEASE_TTL

A line is `token`, as `what`, at the moment before the look that said yes: it was believed then.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import sys
import time
from pathlib import Path

from bench.journal import Journal
from stampede_guard.errors import LeaseLost, LeaseTaken, StoreError
from stampede_guard.leases import Leases, PostgresLeases, RedisLeases

__all__ = ["NAME", "leases_at"]

NAME = "contended"


def leases_at(url: str, namespace: str) -> Leases:
    if url.startswith("postgres"):
        return PostgresLeases.from_url(url, namespace=namespace)
    return RedisLeases.from_url(url, namespace=namespace)


async def contend(url: str, namespace: str, journal: Journal, lease_ttl: float) -> None:
    leases = leases_at(url, namespace)
    by = os.getpid()
    while True:
        with contextlib.suppress(LeaseLost, LeaseTaken, StoreError):
            async with leases.hold(NAME, lease_ttl, wait=lease_ttl) as lease:
                for _ in range(random.randrange(1, 60)):
                    before = time.monotonic()
                    if lease.remaining() > 0:
                        line = f"{lease.token} {before!r}"
                        journal.write(NAME, by, line)
                    await asyncio.sleep(0.02)
        await asyncio.sleep(0.01 * random.random())


if __name__ == "__main__":
    asyncio.run(contend(sys.argv[1], sys.argv[2], Journal(Path(sys.argv[3])), float(sys.argv[4])))
