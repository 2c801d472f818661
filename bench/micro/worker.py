"""One of the eight processes: `python -m bench.micro.worker URL NAMESPACE`. It ends when its standard input does.

It reads one command per line as JSON, says `{"ready": true}` when its callers stand at the start, and answers with one
line. Times are of `time.monotonic`, which on Linux and macOS is one clock for all processes of a machine.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.client import PubSub

from bench.micro.value import VALUE
from stampede_guard import StampedeGuard

__all__ = ["CHANNEL"]

CHANNEL = "micro:floor"


class Worker:
    def __init__(self, url: str, namespace: str) -> None:
        self.guard = StampedeGuard.from_url(url, namespace=namespace)
        self.client = Redis.from_url(url)
        self.pubsub: PubSub = self.client.pubsub()
        self.made: list[float] = []

        @self.guard.locked_cache(ttl=600)
        async def compute(key: str, seconds: float):  # type: ignore[no-untyped-def]
            await asyncio.sleep(seconds)
            self.made.append(time.monotonic())
            return VALUE

        self._cached: Callable[[str, float], Awaitable[Any]] = compute

    async def warm(self, *, key: str) -> dict[str, Any]:
        """Every connection there will be: a miss opens them all."""
        await self.pubsub.subscribe(CHANNEL)
        await self.pubsub.get_message(timeout=5)
        await self._cached(key, 0.0)
        return {}

    async def herd(self, *, key: str, seconds: float, callers: int, at: float) -> dict[str, Any]:
        """`callers` calls of one key at the same moment; when each had the value, and when it was computed here."""
        self.made.clear()
        got: list[float] = []

        async def caller() -> None:
            await self._cached(key, seconds)
            got.append(time.monotonic())

        await asyncio.sleep(max(0.0, at - time.monotonic()))
        await asyncio.gather(*[caller() for _ in range(callers)])
        return {"got": got, "made": list(self.made)}

    async def floor(self, *, callers: int) -> dict[str, Any]:
        """`callers` futures, resolved by one message that carries the value."""
        loop = asyncio.get_running_loop()
        futures: list[asyncio.Future[Any]] = [loop.create_future() for _ in range(callers)]
        got: list[float] = []

        async def caller(future: asyncio.Future[Any]) -> None:
            await future
            got.append(time.monotonic())

        everybody = asyncio.gather(*[caller(future) for future in futures])
        await asyncio.sleep(0)
        tell({"ready": True})
        message = None
        while message is None:
            message = await self.pubsub.get_message(ignore_subscribe_messages=True, timeout=30)
        value = json.loads(message["data"])
        for future in futures:
            future.set_result(value)
        await everybody
        return {"got": got}

    async def aclose(self) -> None:
        await self.guard.aclose()
        await self.pubsub.aclose()  # type: ignore[no-untyped-call]
        await self.client.aclose()


def tell(answer: dict[str, Any]) -> None:
    print(json.dumps(answer), flush=True)


async def _serve(url: str, namespace: str) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    worker = Worker(url, namespace)
    try:
        while line := await reader.readline():
            command = json.loads(line)
            tell(await getattr(worker, command.pop("do"))(**command))
    finally:
        await worker.aclose()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:3]))
