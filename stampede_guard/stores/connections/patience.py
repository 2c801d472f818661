"""Deadlines that measure the store, not this process: time in which the event loop was blocked does not count."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

__all__ = ["more_time", "patiently"]


def more_time(seconds: float, *, late: float, spared: bool) -> float:
    """Seconds to wait beyond a deadline of `seconds`, checked `late` seconds too late. 0 means that it has passed.

    A blocked loop finds two things at once: the deadline is over, and the answer lies unread in the socket. After a
    long block, the full time is granted again, also repeatedly. Otherwise the reader gets one short extra turn
    (`spared`: it had that turn).
    """
    if late > seconds / 2:
        return seconds
    return 0.0 if spared else seconds / 20


@contextlib.asynccontextmanager
async def patiently(seconds: float) -> AsyncIterator[None]:
    """Like `asyncio.timeout(seconds)`, but time in a blocked event loop does not count. Raises `TimeoutError`."""
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
