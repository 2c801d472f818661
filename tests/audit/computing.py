"""What the modules of the fix cases compute: each call is counted, and takes long enough for a herd to form."""

from __future__ import annotations

import asyncio
import time

calls: list[object] = []
questions: list[object] = []
LASTS = 0.1  # seconds
LONGEST = 10.0  # seconds
together = 1
"""How many calls wait for one another: on a busy machine, the first would be over before the second comes."""


async def compute(value: object = 1) -> int:
    calls.append(value)
    await asyncio.sleep(LASTS)
    until = time.monotonic() + LONGEST
    while len(calls) < together and time.monotonic() < until:  # noqa: ASYNC110  # calls come from threads, too
        await asyncio.sleep(LASTS / 10)
    return 80


async def nothing() -> int:
    """A true answer that is falsy."""
    await compute()
    return 0


def compute_in_a_thread(value: object = 1) -> int:
    calls.append(value)
    time.sleep(LASTS)
    until = time.monotonic() + LONGEST
    while len(calls) < together and time.monotonic() < until:
        time.sleep(LASTS / 10)
    return 80


def asked(value: object = 1) -> bool:
    """What each caller must be asked, whether the value is cached or not."""
    questions.append(value)
    return True
