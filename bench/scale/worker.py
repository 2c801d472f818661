"""One process of the grid: `python -m bench.scale.worker URL NAMESPACE`. It ends when its standard input does.

Each line is a command as JSON: walk over the keys and call each once, 64 callers at a time. The answer tells how many
computations ran here and what the walk cost this process. Times are of `time.monotonic`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from typing import Any

from bench.micro.value import VALUE
from stampede_guard import Policy, StampedeGuard
from stampede_guard.policy import Limits

CALLERS = 64


class Worker:
    def __init__(self, url: str, namespace: str) -> None:
        # Last values are for the time the store is away; a hundred thousand keys would only fill them.
        self.guard = StampedeGuard.from_url(
            url,
            namespace=namespace,
            policy=Policy(ttl=600, wait_timeout=120),
            limits=Limits(last_value_bytes=0),
        )
        self.computations = 0

        @self.guard.locked_cache()
        async def value(cell: str, number: int):  # type: ignore[no-untyped-def]
            self.computations += 1
            await asyncio.sleep(0)
            return VALUE

        self.value = value

    async def walk(self, *, cell: str, keys: int, at: float) -> dict[str, Any]:
        """Every process takes the keys in the same order, so that they meet on each of them."""
        await asyncio.sleep(max(0.0, at - time.monotonic()))
        self.computations = 0
        numbers = iter(range(keys))

        async def caller() -> None:
            for number in numbers:
                await self.value(cell, number)

        cpu, began = time.process_time(), time.monotonic()
        await asyncio.gather(*[caller() for _ in range(min(CALLERS, keys))])
        return {
            "computations": self.computations,
            "cpu": time.process_time() - cpu,
            "began": began,
            "ended": time.monotonic(),
        }


async def _serve(url: str, namespace: str) -> None:
    reader = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    worker = Worker(url, namespace)
    try:
        while line := await reader.readline():
            command = json.loads(line)
            print(json.dumps(await getattr(worker, command.pop("do"))(**command)), flush=True)
    finally:
        await worker.guard.aclose()


if __name__ == "__main__":
    asyncio.run(_serve(*sys.argv[1:3]))
