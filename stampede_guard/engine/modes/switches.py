"""The fleet's switches in one process: read at the start, after each message about a change, and every few seconds.

A message may be lost. So the regular read decides, and a message only makes it earlier. While the store is away or
denies the read, the last known switches apply, each until its time has passed.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context

from stampede_guard.errors import StoreError, StoreRefused
from stampede_guard.stores.switch import WATCH_TITLE, Switch

__all__ = ["SWITCH_SECONDS", "Switches"]

log = logging.getLogger("stampede_guard")

SWITCH_SECONDS = 5.0
"""The approximate time between two reads. It varies, so that the processes of a fleet do not read in step."""


class Switches:
    """`read` asks the store. `changed` receives the answer if it differs from `known`.

    The guard remembers the known switches, and not this object: 1. A switch is set. 2. The guard is closed. 3. The
    switch is removed. 4. The guard is used again. An object that began without knowledge would see no change, and the
    switch would apply for ever. It also remembers the `ends` of switches with a time, by title, on this `clock`:
    the remaining time of a known switch is as old as its last change. `pause(seconds)` waits; a test gives its own.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[Mapping[str, Switch]]],
        changed: Callable[[Mapping[str, Switch]], None],
        known: Callable[[], Mapping[str, Switch]],
        *,
        ends: dict[str, float] | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._ends = ends if ends is not None else {}
        self._clock = clock
        self._changed = changed
        self._pause = pause
        self._known = known
        self._told = asyncio.Event()
        self._turn = asyncio.Lock()
        self._refused = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._watch(), name="stampede_guard switches", context=Context()
            )

    def look(self) -> None:
        """Read as soon as possible: the switches have changed, or a message may have been lost."""
        if self._task is not None and self._task.done():
            # Something cancelled all tasks of the event loop.
            self._task = None
            self.start()
        self._told.set()

    async def read(self) -> None:
        """Read before this returns, if switches are read here at all: this process has changed them."""
        if self._task is not None:
            await self._look()

    async def aclose(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    async def _watch(self) -> None:
        while True:
            self._told.clear()
            await self._look()
            await self._until_next()

    async def _look(self) -> None:
        # An answer that is older may not come after a newer one.
        async with self._turn:
            found = await self._found()
            if found is None:
                found = self._without_ended()
            texts, known = _texts(found), _texts(self._known())
            if texts == known:
                return
            for title in sorted(texts.keys() | known.keys()):
                before, now = known.get(title), texts.get(title)
                if before != now and title != WATCH_TITLE:
                    log.warning("the mode of %s is now %s (fleet's switch)", title, now or "its own again")
            self._changed(found)

    async def _found(self) -> Mapping[str, Switch] | None:
        """The switches in the store. None if they cannot be read."""
        try:
            found = await self._read()
        except StoreRefused:
            if not self._refused:
                self._refused = True
                # Not the reason: if access is denied everywhere, the flights have logged it already.
                log.warning(
                    "the fleet's modes cannot be read, so changes by `stampede-guard mode` do not arrive here. "
                    "The last known switches hold until their time ends; "
                    "`stampede-guard doctor` shows which right is missing"
                )
            return None
        except StoreError:
            return None
        except Exception:  # from a user's store; continue to watch
            if not self._refused:
                self._refused = True
                log.exception("the fleet's modes cannot be read")
            return None
        self._refused = False
        now = self._clock()
        self._ends.clear()
        self._ends.update(
            {title: now + switch.left for title, switch in found.items() if switch.left is not None}
        )
        return found

    def _without_ended(self) -> Mapping[str, Switch]:
        """The last known switches. The store cannot say that the time of some has passed."""
        now = self._clock()
        ended = {title for title, end in list(self._ends.items()) if end <= now}
        return {title: switch for title, switch in self._known().items() if title not in ended}

    async def _until_next(self) -> None:
        pause = asyncio.ensure_future(self._pause(SWITCH_SECONDS * random.uniform(0.8, 1.2)))
        told = asyncio.ensure_future(self._told.wait())
        try:
            await asyncio.wait({pause, told}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            told.cancel()


def _texts(fleet: Mapping[str, Switch]) -> dict[str, str]:
    """The switches without their remaining time, which differs at each read."""
    return {title: str(switch) for title, switch in fleet.items()}
