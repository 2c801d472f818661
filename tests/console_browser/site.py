"""An application with a console that allows everything: a cached function, a lease, a job that fails.

python -m tests.console_browser.site URL NAMESPACE
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys

import uvicorn
from starlette.applications import Starlette

from stampede_guard import StampedeGuard
from stampede_guard.jobs import Jobs
from stampede_guard.leases import LeaseLost, RedisLeases

LONGEST_HEAD = 2**20
ACTIONS = ("mode", "invalidate", "release_lease", "run_job", "pause_job", "resume_job")


async def main(url: str, namespace: str) -> None:
    guard = StampedeGuard.from_url(f"{url}?socket_timeout=30", namespace=namespace)

    @guard.locked_cache(ttl=300, name="shop.<b>bold</b>")
    async def bold(number: int) -> int:
        return number

    @guard.locked_cache(ttl=3600, name="shop.kept")
    async def kept(number: int) -> int:
        return number

    async with guard, RedisLeases.from_url(url, namespace=namespace, hooks=(guard.report,)) as leases:
        jobs = Jobs(leases)

        @jobs.every(3600)
        async def failing() -> None:
            raise LookupError("<img src=x onerror=alert(1)>")

        # A new server grants no leases for a minute, and a run in its last second may be refused.
        for _ in range(90):
            if (await jobs.run_now("failing")).error.startswith("LookupError"):
                break
            await asyncio.sleep(1)
        await kept(1)
        app = Starlette()
        app.mount(
            "/ops", guard.console(allow=lambda request: "ada", actions=ACTIONS, shows_names=True, jobs=jobs)
        )
        around = [asyncio.create_task(call(bold)), asyncio.create_task(hold(leases))]
        with socket.create_server(("127.0.0.1", 0)) as listener:
            print(listener.getsockname()[1], flush=True)
            # httptools refuses addresses above 64 KiB itself, and so does h11 by default. Here the console must.
            config = uvicorn.Config(
                app,
                log_level="warning",
                timeout_graceful_shutdown=1,
                http="h11",
                h11_max_incomplete_event_size=LONGEST_HEAD,
            )
            await uvicorn.Server(config).serve(sockets=[listener])
        for task in around:
            task.cancel()


async def hold(leases: RedisLeases) -> None:
    """Until an operator takes the lease away."""
    with contextlib.suppress(LeaseLost):
        async with leases.hold("<u>nightly</u>"):
            await asyncio.Event().wait()


async def call(function: object) -> None:
    while True:
        await function(7)  # type: ignore[operator]
        await asyncio.sleep(0.1)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
