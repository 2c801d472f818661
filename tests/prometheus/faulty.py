"""Processes with real faults: each scenario has its own metrics, at a port of its own.

`python -m tests.prometheus.faulty URL SCENARIO...` prints a JSON object with the ports, serves calls that find a value,
begins the faults at the first line on its standard input, and ends with the input.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any
from urllib.parse import urlsplit

from prometheus_client import CollectorRegistry, start_http_server

from stampede_guard import StampedeGuard
from stampede_guard.jobs import Jobs
from stampede_guard.leases import MemoryLeases
from stampede_guard.ops.observe.prometheus import PrometheusHook
from tests.support.proxy import FaultProxy

AT_ONCE = 8
"""Faults of one round: an alert wants more than three."""


class Scene:
    """`fault` is set when the faults begin, `ended` when they must stop."""

    def __init__(self, name: str, url: str) -> None:
        registry = CollectorRegistry()
        self.name, self.url = name, url
        self.hook = PrometheusHook(registry)
        self.port = start_http_server(0, addr="127.0.0.1", registry=registry)[0].server_port
        self.fault, self.ended = asyncio.Event(), asyncio.Event()

    def guard(self, *, watched: bool = True) -> StampedeGuard:
        return StampedeGuard.from_url(self.url, namespace=self.name, hooks=(self.hook,) if watched else ())

    async def serve(self, fault: Callable[[int], Awaitable[object]] | None, *, pause: float = 0.05) -> None:
        """Calls that find a value; when the time has come, the fault in rounds, beside them."""
        async with self.guard() as guard:

            @guard.locked_cache(ttl=3600, name="steady")
            async def steady() -> int:
                return 7

            rounds = 0
            while not self.ended.is_set():
                await asyncio.gather(*(steady() for _ in range(20)))
                if fault is not None and self.fault.is_set():
                    await fault(rounds)
                    rounds += 1
                await asyncio.wait({asyncio.ensure_future(self.ended.wait())}, timeout=pause)


async def healthy(scene: Scene) -> None:
    await scene.serve(None)


async def raises(scene: Scene) -> None:
    async with scene.guard() as guard:

        @guard.locked_cache(ttl=60, error_ttl=0, name="broken")
        async def broken(number: int) -> int:
            raise LookupError(number)

        await scene.serve(lambda rounds: asyncio.gather(broken(rounds), return_exceptions=True))


async def unstorable(scene: Scene) -> None:
    async with scene.guard() as guard:

        @guard.locked_cache(ttl=60, name="rows")
        async def rows() -> object:
            return (row for row in (1, 2))

        await scene.serve(lambda _: asyncio.gather(rows(), return_exceptions=True))


async def misses(scene: Scene) -> None:
    async with scene.guard() as guard:

        @guard.locked_cache(ttl=60, name="report")
        async def report(request: int) -> int:
            return request

        await scene.serve(lambda rounds: asyncio.gather(*(report(rounds * 10 + one) for one in range(10))))


async def overdue(scene: Scene) -> None:
    async with scene.guard() as guard:

        @guard.locked_cache(ttl=60, compute_timeout=0.4, error_ttl=0, name="endless")
        async def endless(number: int) -> int:
            await asyncio.sleep(3600)
            return number

        await scene.serve(
            lambda rounds: asyncio.gather(
                *(endless(rounds * AT_ONCE + one) for one in range(AT_ONCE)), return_exceptions=True
            )
        )


async def slow_holder(scene: Scene) -> None:
    """Another process computes for as long as the scene lasts. This one waits, and then computes beside it."""
    async with scene.guard() as guard, scene.guard(watched=False) as other:
        holding: list[asyncio.Future[int]] = []

        async def slow(number: int) -> int:
            if len(holding) > number:
                return number
            await scene.ended.wait()
            return number

        mine = guard.locked_cache(ttl=60, wait_timeout=0.3, name="slow")(slow)
        theirs = other.locked_cache(ttl=60, name="slow")(slow)

        async def beside(rounds: int) -> None:
            if rounds < 2 * AT_ONCE:
                began = asyncio.ensure_future(theirs(rounds))
                await asyncio.sleep(0.05)
                holding.append(began)
                await mine(rounds)

        await scene.serve(beside)
        await asyncio.gather(*holding)


async def vanishing_holder(scene: Scene) -> None:
    async with scene.guard() as guard:

        @guard.locked_cache(ttl=3600, name="report")
        async def report(number: int) -> int:
            return number

        async def killed(rounds: int) -> None:
            if rounds:
                return
            command = [sys.executable, "-m", "tests.prometheus.faulty", scene.url, "holder"]
            holder = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert holder.stdout is not None
            await asyncio.to_thread(holder.stdout.readline)
            waiting = asyncio.gather(*(report(number) for number in range(AT_ONCE)))
            holder.kill()
            holder.communicate()
            await waiting

        await report(AT_ONCE)
        await scene.serve(killed)


async def holder(url: str) -> None:
    """Holds the leases of the scenario `vanishing_holder` until it is killed."""
    begun = 0
    async with StampedeGuard.from_url(url, namespace="vanishing_holder") as guard:

        @guard.locked_cache(ttl=3600, name="report")
        async def report(number: int) -> int:
            nonlocal begun
            begun += 1
            if begun == AT_ONCE:
                print("holds", flush=True)
            await asyncio.sleep(3600)
            return number

        await asyncio.gather(*(report(number) for number in range(AT_ONCE)))


async def blocked(scene: Scene) -> None:
    """Code without an await keeps the event loop for longer than leases last."""
    async with scene.guard() as guard:

        @guard.locked_cache(ttl=60, lease_ttl=0.3, takeover_gap=0.1, poll_interval=0.3, name="busy")
        async def busy(number: int) -> int:
            time.sleep(0.6)
            await asyncio.sleep(0.3)
            return number

        await scene.serve(busy)


async def slow_store(scene: Scene) -> None:
    async with FaultProxy(urlsplit(scene.url).port or 0) as proxy:
        scene.url = proxy.url

        async def slow(rounds: int) -> None:
            proxy.latency(0.2)

        await scene.serve(slow)


async def failing_job(scene: Scene) -> None:
    async with MemoryLeases(namespace=scene.name, hooks=(scene.hook,)) as leases:
        jobs = Jobs(leases)

        @jobs.every(1, lease_ttl=3)
        async def sync() -> None:
            if scene.fault.is_set():
                raise ValueError("no")

        async with jobs.lifespan(None):
            await scene.serve(None)


SCENES: dict[str, Callable[[Scene], Coroutine[Any, Any, None]]] = {
    one.__name__: one
    for one in (
        healthy, raises, unstorable, misses, overdue, slow_holder, vanishing_holder, blocked, slow_store,
        failing_job,
    )
}  # fmt: skip
"""`away` and `refused` are healthy: the test takes their server away, and their rights."""
SCENES |= {"away": healthy, "refused": healthy}


async def main(url: str, *names: str) -> None:
    if names == ("holder",):
        return await holder(url)
    scenes = [Scene(name, url) for name in names]
    print(json.dumps({scene.name: scene.port for scene in scenes}), flush=True)
    async with asyncio.TaskGroup() as group:
        for scene in scenes:
            group.create_task(SCENES[scene.name](scene))
        await asyncio.to_thread(sys.stdin.readline)
        for scene in scenes:
            scene.fault.set()
        await asyncio.to_thread(sys.stdin.read)
        for scene in scenes:
            scene.ended.set()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
