"""Steps of a coroutine that stops everybody else."""

from __future__ import annotations

import asyncio

steps: list[str] = []


async def poll() -> int:
    steps.append("begin")
    await asyncio.sleep(0.01)  # until it is there
    steps.append("end")
    return 80
