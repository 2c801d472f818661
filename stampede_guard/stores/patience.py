"""Deadlines that measure the store, not this process: time in which the event loop was held up does not count."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

__all__ = ["more_time", "patiently"]


def more_time(seconds: float, *, late: float, spared: bool) -> float:
    """What to wait beyond a deadline of `seconds` that was looked at `late` seconds too late; 0 = it has passed.

    A loop that was blocked finds the deadline over and the answer unread in the socket, both at once. After a long
    block all of the time is given again, also repeatedly; otherwise, once (`spared`), a moment for the reader's turn.
    """
    if late > seconds / 2:
        return seconds
    return 0.0 if spared else seconds / 20


@contextlib.asynccontextmanager
async def patiently(seconds: float) -> AsyncIterator[None]:
    """`asyncio.timeout(seconds)`, except that a blocked event loop is no time-out. Raises `TimeoutError`."""
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds
    handle: asyncio.TimerHandle | None = None
    async with asyncio.timeout(None) as scope:

        def look(due: float, spared: bool) -> None:
            nonlocal handle
            now = loop.time()
            more = more_time(seconds, late=now - due, spared=spared)
            if more:
                handle = loop.call_at(now + more, look, now + more, True)
            else:
                scope.reschedule(now)

        handle = loop.call_at(due, look, due, False)
        try:
            yield
        finally:
            handle.cancel()
