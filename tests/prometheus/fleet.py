"""A process with metrics of leases and jobs on a port. `make demo` has none of both."""

from __future__ import annotations

import asyncio
import sys

from prometheus_client import start_http_server

from stampede_guard import events
from stampede_guard.jobs import Jobs
from stampede_guard.leases import MemoryLeases
from stampede_guard.ops.observe.prometheus import PrometheusHook


async def work() -> None:
    server, _ = start_http_server(0, addr="127.0.0.1")
    print(server.server_port, flush=True)
    hook = PrometheusHook()
    async with MemoryLeases(namespace="shop", hooks=(hook,)) as leases:
        jobs = Jobs(leases)

        @jobs.every(1, lease_ttl=3)
        async def report() -> None: ...

        async with jobs.lifespan(None):
            # A healthy scheduler has no overdue job.
            hook(events.JobOverdue("shop:closing", "shop:closing", 7.0))
            await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(work())
