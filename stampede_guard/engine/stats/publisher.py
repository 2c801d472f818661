"""Adds the sums of this process to those of the fleet."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context

from stampede_guard.engine.stats.counting import Sums
from stampede_guard.errors import StoreError, StoreRefused
from stampede_guard.stores.fleet.sums import MINUTE, FunctionSums

__all__ = ["Publisher"]

log = logging.getLogger("stampede_guard")

PUBLISH_SECONDS = 10.0
"""The approximate time between two publications. It varies, so that the processes of a fleet do not send in step."""


class Publisher:
    """Sends the sums from one event loop. `add(minute, sums)` returns the server's minute: see `Session.count`.

    `pause(seconds)` waits; a test gives its own.
    """

    def __init__(
        self,
        sums: Sums,
        add: Callable[[int, Mapping[str, FunctionSums]], Awaitable[int]],
        is_away: Callable[[], bool],
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._sums = sums
        self._add = add
        self._is_away = is_away
        self._pause = pause
        self._clock = clock
        self._ahead = 0
        """Minutes by which the server's clock is ahead of this machine's."""
        self._ending = asyncio.Event()
        self._refused = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(
                self._publish(), name="stampede_guard stats", context=Context()
            )

    async def aclose(self) -> None:
        """Send what has come together, and end."""
        self._ending.set()
        if self._task is not None:
            await asyncio.wait({self._task})
        await self.send()

    async def _publish(self) -> None:
        while not self._ending.is_set():
            pause = asyncio.ensure_future(self._pause(PUBLISH_SECONDS * random.uniform(0.8, 1.2)))
            ending = asyncio.ensure_future(self._ending.wait())
            try:
                await asyncio.wait({pause, ending}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                pause.cancel()
                ending.cancel()
            if not self._ending.is_set():
                await self.send()

    async def send(self) -> None:
        """Add to the fleet's sums. While the store is away, the numbers stay here."""
        if self._is_away():
            return
        rows = self._sums.take()
        if not rows:
            return
        try:
            if not await self._added(rows):
                self._sums.put_back(rows)
        except StoreRefused:
            self._sums.put_back(rows)
            if not self._refused:
                self._refused = True
                log.warning(
                    "the store refuses the sums for `stampede-guard stats`, so they lack this process; "
                    "`stampede-guard doctor` shows which right is missing"
                )
        except StoreError as error:
            log.debug("sums for `stampede-guard stats` are lost: %s", type(error).__name__)
        except Exception:  # from a user's store
            if not self._refused:
                self._refused = True
                log.exception("the sums for `stampede-guard stats` cannot be stored")

    async def _added(self, rows: Mapping[str, FunctionSums]) -> bool:
        # The server's clock decides. A machine's clock may be wrong, and then one more round trip corrects it.
        for _ in range(2):
            own = int(self._clock() // MINUTE)
            minute = own + self._ahead
            there = await self._add(minute, rows)
            if abs(there - minute) <= 1:
                return True
            self._ahead = there - own
        return False
