"""A process that stands for election and writes while it leads.

`python -m tests.leases.worker URL NAMESPACE LABEL TTL`. What it writes goes through the fence, a moment after it has
looked: so it can be stopped in between. It tells each change on its standard output.
"""

from __future__ import annotations

import asyncio
import sys

import asyncpg  # type: ignore[import-untyped]

from stampede_guard.errors import LeaseLost
from stampede_guard.leases import Lease, PostgresLeases


async def main(url: str, namespace: str, label: str, lease_ttl: float) -> None:
    leases = PostgresLeases.from_url(url, namespace=namespace, label=label)
    connection = await asyncpg.connect(url)

    async def lead(lease: Lease) -> None:
        print(f"leads {lease.token}", flush=True)
        wrote = False
        while True:
            try:
                async with lease.fenced(connection) as transaction:
                    await transaction.execute(
                        "INSERT INTO writes (namespace, token, label) VALUES ($1, $2, $3)",
                        namespace,
                        lease.token,
                        label,
                    )
                    await asyncio.sleep(0.02)
                if not wrote:
                    wrote = True
                    print(f"wrote {lease.token}", flush=True)
            except LeaseLost:
                print(f"refused {lease.token}", flush=True)
                return

    election = leases.election("leader", lease_ttl=lease_ttl, on_elected=lead)
    async with leases, election:
        print("stands", flush=True)
        told = 0
        while True:
            await asyncio.sleep(0.02)
            if election.token != told:
                told = election.token
                print(f"believes {told}" if told else "doubts", flush=True)


asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4])))
