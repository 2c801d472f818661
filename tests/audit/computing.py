"""What the modules of the fix cases compute: each call is counted, and takes long enough for a herd to form."""

from __future__ import annotations

import asyncio
import time

calls: list[object] = []
LASTS = 0.1  # seconds


async def compute(value: object = 1) -> int:
    calls.append(value)
    await asyncio.sleep(LASTS)
    return 80


async def nothing() -> int:
    """A true answer that is falsy."""
    await compute()
    return 0


def compute_in_a_thread(value: object = 1) -> int:
    calls.append(value)
    time.sleep(LASTS)
    return 80
