"""Steps of a coroutine that stops everybody else."""

from __future__ import annotations

import time

steps: list[str] = []


async def poll() -> int:
    steps.append("begin")
    time.sleep(0.01)  # until it is there
    steps.append("end")
    return 80
