"""What the modules of the fix cases compute: each call is counted, and takes long enough for a herd to form."""

from __future__ import annotations

import asyncio
import time

calls: list[object] = []
questions: list[object] = []
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


def asked(value: object = 1) -> bool:
    """What each caller must be asked, whether the value is cached or not."""
    questions.append(value)
    return True
