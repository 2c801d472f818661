"""Deletes unused names, so that they do not accumulate in the table. Processes that add names also delete.

A name with a parameter or a slot in it is used once and never again. So a process that adds a name sometimes deletes
rows that were idle for a day. It deletes more than were added since, even if processes live only briefly and few of
them run jobs. A table that gets no new names does not grow, so nothing is deleted.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Callable, Coroutine
from typing import Any

from stampede_guard.errors import StoreError

__all__ = ["EACH", "KEPT_FOR", "MOST", "Forgetting"]

KEPT_FOR = 86_400.0
"""Seconds for which an unused row is kept, so that operators can still see it."""
EACH = 100
"""New names, on average, from one deletion to the next."""
MOST = 5_000
"""Rows deleted at once: many more than were added since the last deletion."""
PAUSE = 10.0
"""The minimum of seconds between two deletions of one process."""
TIMEOUT = 5.0

log = logging.getLogger("stampede_guard.leases")


class Forgetting:
    """`prune()` deletes at most `MOST` rows. `clock` is monotonic. `draw` returns random numbers from 0 to 1."""

    def __init__(
        self,
        prune: Callable[[], Coroutine[Any, Any, object]],
        *,
        clock: Callable[[], float] = time.monotonic,
        draw: Callable[[], float] = random.random,
    ) -> None:
        self._prune = prune
        self._clock = clock
        self._draw = draw
        self._not_before = 0.0
        self._work: asyncio.Task[None] | None = None

    def added(self) -> None:
        """Call this after adding a name. It may start a deletion in the background."""
        under_way = self._work is not None and not self._work.done()
        if under_way or self._draw() * EACH >= 1 or self._clock() < self._not_before:
            return
        self._not_before = self._clock() + PAUSE
        loop = asyncio.get_running_loop()
        self._work = loop.create_task(self._forget(), name="stampede_guard forgets old names of leases")

    async def _forget(self) -> None:
        try:
            await self._prune()
        except StoreError as error:
            log.warning("unused lease names could not be deleted: %s", error)

    async def aclose(self) -> None:
        """Wait for a running deletion; it has its own time-out."""
        if self._work is not None:
            await asyncio.wait({self._work})
