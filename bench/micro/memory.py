"""What stays in memory after many distinct keys were each called once: `python -m bench.micro.memory URL KEYS`.

In a process of its own, with the store of last values off (`last_value_bytes=0`): that one is meant to fill, up to its
bound.
"""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
from dataclasses import asdict, dataclass

import psutil  # type: ignore[import-untyped]

from bench.micro.row import Row
from stampede_guard import Policy, StampedeGuard
from stampede_guard.policy import Limits

__all__ = ["measure_memory"]

AT_ONCE = 100
WARM_UP = 0.05
"""Share of the keys called before the first look: buffers and arenas are as large as they get."""


@dataclass(frozen=True, slots=True)
class Footprint:
    """Resident bytes of the process, and blocks that Python's allocator has given out."""

    rss: int
    blocks: int

    @classmethod
    def now(cls) -> Footprint:
        gc.collect()
        return cls(psutil.Process().memory_info().rss, sys.getallocatedblocks())


def measure_memory(url: str, *, keys: int) -> Row:
    """Raises `RuntimeError` when the process that is measured fails."""
    command = [sys.executable, "-m", "bench.micro.memory", url, str(keys)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError("the process whose memory is measured failed; what it said stands above")
    before, after = (Footprint(**look) for look in json.loads(done.stdout))
    return Row(
        name="memory",
        work=f"memory after {keys:,} keys, each called once",
        ours=after.rss / 1e6,
        baseline=before.rss / 1e6,
        unit="MB",
        figure=(after.rss - before.rss) / 1e6,
        target=5,
        better="less",
        samples=1,
        details={"keys": keys, "blocks_before": before.blocks, "blocks_after": after.blocks},
    )


async def _call_each(url: str, keys: int) -> tuple[Footprint, Footprint]:
    guard = StampedeGuard.from_url(
        url, namespace="micro-memory", policy=Policy(ttl=1.0), limits=Limits(last_value_bytes=0)
    )

    @guard.locked_cache()
    async def value(number: int) -> dict[str, int]:
        return {"number": number}

    async def caller(numbers: range) -> None:
        for number in numbers:
            if await value(number) != {"number": number}:
                raise AssertionError("a wrong value")

    async def call(first: int, end: int) -> None:
        # Ranges, because a list of the keys would be what grows.
        await asyncio.gather(*[caller(range(first + offset, end, AT_ONCE)) for offset in range(AT_ONCE)])

    warm_up = round(keys * WARM_UP)
    await call(0, warm_up)
    before = Footprint.now()
    await call(warm_up, keys)
    after = Footprint.now()
    await guard.aclose()
    return before, after


if __name__ == "__main__":
    print(json.dumps([asdict(look) for look in asyncio.run(_call_each(sys.argv[1], int(sys.argv[2])))]))
