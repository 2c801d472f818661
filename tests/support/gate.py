"""Holding a computation where a test wants it, and waiting for what it did."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from stampede_guard.errors import ComputeTimeout
from tests.support.listener import PATIENCE

__all__ = ["Gate", "in_time", "soon", "until"]

T = TypeVar("T")


class Gate:
    """Whoever comes to `hold` is counted in `entered` and stays until `open`; in `cancelled`, if cancelled there."""

    def __init__(self) -> None:
        self.entered = 0
        self.cancelled = 0
        self._arrivals = asyncio.Semaphore(0)
        self._opened = asyncio.Event()

    async def hold(self) -> None:
        self.entered += 1
        self._arrivals.release()
        try:
            await self._opened.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    async def arrival(self) -> None:
        """Wait for the next one to come in, who may be there already."""
        await soon(self._arrivals.acquire())

    def open(self) -> None:
        self._opened.set()


async def soon(awaited: Awaitable[T]) -> T:
    """What is awaited, or `TimeoutError` when it never comes."""
    return await asyncio.wait_for(awaited, PATIENCE)


async def in_time(call: Callable[[], Awaitable[T]]) -> T:
    """The result of a call with a short `compute_timeout`. A busy machine may miss it: then it is called again."""
    async with asyncio.timeout(PATIENCE):
        while True:
            with contextlib.suppress(ComputeTimeout):
                return await call()


async def until(condition: Callable[[], object]) -> None:
    """Wait until something is so that no event tells of. Raises `TimeoutError` when it never is."""
    async with asyncio.timeout(PATIENCE):
        while not condition():  # noqa: ASYNC110  # there is no event to wait for, as the name says
            await asyncio.sleep(0.001)
