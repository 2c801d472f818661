"""The fleet's switches, kept current in one process: read at the start, when somebody says that they changed, and else
every few seconds.

A message may be lost, so the look at intervals decides and the message only makes it sooner. While the store is away,
or does not let this process read its switches, those known last hold.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping
from contextvars import Context

from stampede_guard.core.switch import Switch
from stampede_guard.errors import StoreError, StoreRefused

__all__ = ["SWITCH_SECONDS", "Switches"]

log = logging.getLogger("stampede_guard")

SWITCH_SECONDS = 5.0
"""Between two looks, more or less: a fleet shall not look in step."""


class Switches:
    """`read` asks the store; `changed` is told of what it answered, where that differs from what is `known`.

    That is the guard's to say, and not remembered here: 1. a switch is heard; 2. the guard is closed; 3. the switch is
    given back; 4. the guard is used again. Who begins with nothing known finds nothing, and the switch holds for ever.
    `pause(seconds)` waits; a test gives its own.
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[Mapping[str, Switch]]],
        changed: Callable[[Mapping[str, Switch]], None],
        known: Callable[[], Mapping[str, Switch]],
        *,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._read = read
        self._changed = changed
        self._pause = pause
        self._known = known
        self._told = asyncio.Event()
        self._refused = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(
                self._watch(), name="stampede_guard switches", context=Context()
            )

    def look(self) -> None:
        """As soon as may be: somebody said that they changed, or a message may have been lost."""
        self._told.set()

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    async def _watch(self) -> None:
        while True:
            self._told.clear()
            await self._look()
            await self._until_next()

    async def _look(self) -> None:
        try:
            found = await self._read()
        except StoreRefused:
            if not self._refused:
                self._refused = True
                # Not why: who is let in nowhere hears that once already, from the flight's side.
                log.warning(
                    "the fleet's modes cannot be read, so `stampede-guard mode` has no say here; "
                    "`stampede-guard doctor` says which right is missing"
                )
            return
        except StoreError:
            return
        except Exception:  # a store of somebody's own: the watch goes on
            if not self._refused:
                self._refused = True
                log.exception("the fleet's modes cannot be read")
            return
        self._refused = False
        texts, known = _texts(found), _texts(self._known())
        if texts == known:
            return
        for title in sorted(texts.keys() | known.keys()):
            before, now = known.get(title), texts.get(title)
            if before != now:
                log.warning("the mode of %s is %s now, by the fleet's switch", title, now or "its own again")
        self._changed(found)

    async def _until_next(self) -> None:
        pause = asyncio.ensure_future(self._pause(SWITCH_SECONDS * random.uniform(0.8, 1.2)))
        told = asyncio.ensure_future(self._told.wait())
        try:
            await asyncio.wait({pause, told}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            pause.cancel()
            told.cancel()


def _texts(fleet: Mapping[str, Switch]) -> dict[str, str]:
    """Without the time that they still hold, which is another one at each look."""
    return {title: str(switch) for title, switch in fleet.items()}
