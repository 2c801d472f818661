"""Adds the numbers of this process to those of the fleet."""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context
from typing import Any, Generic, Protocol, TypeVar

from stampede_guard.engine.stats.counting import Sums
from stampede_guard.errors import StoreError, StoreRefused
from stampede_guard.stores.fleet.series import MINUTES, Series
from stampede_guard.stores.fleet.sums import FunctionSums, to_fields

__all__ = ["MinuteSums", "Publisher", "Source"]

log = logging.getLogger("stampede_guard")

PUBLISH_SECONDS = 10.0
"""The approximate time between two publications. It varies, so that the processes of a fleet do not send in step."""

Rows = TypeVar("Rows")


class Source(Protocol[Rows]):
    """Where the numbers come from. `reader`: the command that shows them, for a log line."""

    series: Series
    reader: str

    def take(self) -> Rows: ...

    def numbers(self, rows: Rows, slot: int) -> Mapping[str, int]: ...

    def put_back(self, rows: Rows) -> None: ...

    def pause(self, now: float) -> float:
        """Seconds until the next publication. `now`: seconds since 1970 by the server's clock."""


class MinuteSums:
    """The sums for `stampede-guard stats`."""

    series = MINUTES
    reader = "stampede-guard stats"

    def __init__(self, sums: Sums) -> None:
        self.take = sums.take
        self.put_back = sums.put_back

    def numbers(self, rows: Mapping[str, FunctionSums], slot: int) -> Mapping[str, int]:
        return to_fields(rows)

    def pause(self, now: float) -> float:
        return PUBLISH_SECONDS * random.uniform(0.8, 1.2)


class Publisher(Generic[Rows]):
    """Sends from one event loop. `add(series, slot, numbers)` returns the server's slot: see `Session.count`.

    `also` runs after each publication. `pause(seconds)` waits; a test gives its own.
    """

    def __init__(
        self,
        source: Source[Rows],
        add: Callable[[Series, int, Mapping[str, int]], Awaitable[int]],
        is_away: Callable[[], bool],
        *,
        also: Callable[[], Awaitable[bool]] | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._source = source
        self._add = add
        self._is_away = is_away
        self._also = also
        self._pause = pause
        self._clock = clock
        self._ahead = 0
        """Slots by which the server's clock is ahead of this machine's."""
        self._ending = asyncio.Event()
        self._hurry = asyncio.Event()
        self._refused = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._ending.clear()
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(
                self._publish(), name="stampede_guard stats", context=Context()
            )

    def stop(self) -> None:
        """Publish no more. What has come together is not sent. `start` begins again."""
        self._ending.set()

    async def aclose(self) -> None:
        """Send what has come together, and end."""
        self._ending.set()
        if self._task is not None:
            await asyncio.wait({self._task})
        await self.send()

    async def _publish(self) -> None:
        while not self._ending.is_set():
            now = self._clock() + self._ahead * self._source.series.seconds
            pause = asyncio.ensure_future(self._pause(self._source.pause(now)))
            ending = asyncio.ensure_future(self._ending.wait())
            try:
                await self._wait(pause, ending)
            finally:
                pause.cancel()
                ending.cancel()
            if not self._ending.is_set():
                await self.send()

    async def _wait(self, pause: asyncio.Future[Any], ending: asyncio.Future[Any]) -> None:
        """Until the next publication or the end. If it is in a hurry before that, `also` runs once more."""
        self._hurry.clear()
        hurry: asyncio.Future[Any] = asyncio.ensure_future(self._hurry.wait())
        try:
            await asyncio.wait({pause, ending, hurry}, return_when=asyncio.FIRST_COMPLETED)
            if hurry.done() and not pause.done() and self._also is not None and not self._is_away():
                await self._sent(self._also())
        finally:
            hurry.cancel()
        await asyncio.wait({pause, ending}, return_when=asyncio.FIRST_COMPLETED)

    def hurry(self) -> None:
        """Do not wait with `also`. At most once between two publications."""
        self._hurry.set()

    async def send(self) -> None:
        """Add to the fleet's numbers. While the store is away, the numbers stay here."""
        if self._is_away():
            return
        rows = self._source.take()
        if not await self._sent(self._added(rows)):
            self._source.put_back(rows)
        if self._also is not None:
            await self._sent(self._also())

    async def _sent(self, sending: Awaitable[bool]) -> bool:
        """False if nothing of it was certainly added."""
        try:
            return await sending
        except StoreRefused:
            if not self._refused:
                self._refused = True
                log.warning(
                    "the store refuses the sums for `%s`, so they lack this process; "
                    "`stampede-guard doctor` shows which right is missing",
                    self._source.reader,
                )
            return False
        except StoreError as error:
            log.debug("sums for `%s` are lost: %s", self._source.reader, type(error).__name__)
        except Exception:  # from a user's store
            if not self._refused:
                self._refused = True
                log.exception("the sums for `%s` cannot be stored", self._source.reader)
        return True

    async def _added(self, rows: Rows) -> bool:
        # The server's clock decides. A machine's clock may be wrong, and then one more round trip corrects it.
        series = self._source.series
        for _ in range(2):
            own = int(self._clock() // series.seconds)
            slot = own + self._ahead
            numbers = self._source.numbers(rows, slot)
            if not numbers:
                return True
            there = await self._add(series, slot, numbers)
            if abs(there - slot) <= 1:
                return True
            self._ahead = there - own
        return False
