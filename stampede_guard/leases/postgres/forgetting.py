"""Names that nobody uses any more do not pile up in the table: who adds to it also takes away.

Names with a parameter or a slot in them are used once and never again. So now and then whoever has put a new one into
the table deletes what was idle for a day: more than was put in since, however short a process lives and however few of
them run jobs. A table to which nothing is added does not grow, and is left alone.
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
"""Seconds for which a row that nobody uses is kept, for people who look."""
EACH = 100
"""New names, on average, from one deletion to the next."""
MOST = 5_000
"""Rows deleted at once: many more than came since the last time."""
PAUSE = 10.0
"""Seconds from one deletion to the next of the same process, at least."""
TIMEOUT = 5.0

log = logging.getLogger("stampede_guard.leases")


class Forgetting:
    """`prune()` deletes, at most `MOST` rows. `clock` never goes back; `draw` gives chances from 0 to 1."""

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
        """A name was put into the table. Nobody waits for what this begins."""
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
            log.warning("old names of leases were not deleted: %s", error)

    async def aclose(self) -> None:
        """What is under way has a time-out of its own."""
        if self._work is not None:
            await asyncio.wait({self._work})
