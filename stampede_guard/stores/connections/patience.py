"""Deadlines that measure the store, not this process: time in which the event loop was blocked does not count."""

from __future__ import annotations

import asyncio

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


class patiently:
    """Like `asyncio.timeout(seconds)`, but time in a blocked event loop does not count. Raises `TimeoutError`.

    A class, not a generator. If an event loop is dropped with its tasks, the garbage collector may end a generator
    before the coroutine that uses it, and Python then reports an error that has no cure.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._scope = asyncio.timeout(None)

    async def __aenter__(self) -> None:
        await self._scope.__aenter__()
        self._loop = asyncio.get_running_loop()
        self._look_at(self._loop.time() + self._seconds, spared=False)

    async def __aexit__(self, *error: object) -> None:
        self._handle.cancel()
        await self._scope.__aexit__(*error)  # type: ignore[arg-type]

    def _look_at(self, due: float, *, spared: bool) -> None:
        self._handle = self._loop.call_at(due, self._look, due, spared)

    def _look(self, due: float, spared: bool) -> None:
        now = self._loop.time()
        more = more_time(self._seconds, late=now - due, spared=spared)
        if more:
            self._look_at(now + more, spared=True)
        else:
            self._scope.reschedule(now)
