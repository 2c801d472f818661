"""A pod: a process with a job each second, whose calls it writes into a journal.

    python -m tests.jobs.pod URL NAMESPACE JOURNAL OFFSET TAKES [retry]

It begins `OFFSET` seconds after its start, says `following` when the back end knows its job, and ends when its standard
input does.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from bench.journal import Journal
from stampede_guard.jobs import Jobs, Run
from stampede_guard.leases import PostgresLeases, RedisLeases


async def main(
    url: str, namespace: str, journal: Journal, offset: float, takes: float, *, retry: bool
) -> None:
    await asyncio.sleep(offset)
    if url.startswith("postgresql"):
        leases = PostgresLeases.from_url(url, namespace=namespace)
    else:
        leases = RedisLeases.from_url(url, namespace=namespace, restart="trust")
    jobs = Jobs(leases, drain_timeout=60)

    @jobs.every(1, misfire_grace=60, coalesce=False, overlap="allow", lease_ttl=6, retry_abandoned=retry)
    async def tick(run: Run) -> None:
        journal.write("tick", os.getpid(), f"{run.slot.timestamp():.0f} {run.attempt}")
        await asyncio.sleep(takes)

    loop = asyncio.get_running_loop()
    over = loop.create_future()
    loop.add_reader(sys.stdin.fileno(), lambda: over.done() or over.set_result(None))
    async with leases, jobs:
        await jobs._followers["tick"][0].looked.wait()
        print("following", flush=True)
        await over


if __name__ == "__main__":
    asyncio.run(
        main(
            sys.argv[1],
            sys.argv[2],
            Journal(Path(sys.argv[3])),
            float(sys.argv[4]),
            float(sys.argv[5]),
            retry="retry" in sys.argv[6:],
        )
    )
