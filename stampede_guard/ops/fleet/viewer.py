"""Somebody watches a fleet: the switch that makes its processes publish, and what they have published.

1. A viewer sets the switch for a minute, and again while it watches. 2. Processes read it within seconds, and begin to
publish. 3. The viewer ends, or dies. 4. The switch ends, and so do the publications.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING

from stampede_guard.errors import StoreError
from stampede_guard.ops.fleet.masking import masked
from stampede_guard.ops.fleet.snapshot import Snapshot, snapshot
from stampede_guard.stores.fleet.series import WATCHED
from stampede_guard.stores.fleet.stream import HERD_KINDS, HERDS
from stampede_guard.stores.switch import WATCH_TITLE, Switch

if TYPE_CHECKING:
    from stampede_guard.stores.console.console import Console
    from stampede_guard.stores.fleet.stream import Happening
    from stampede_guard.stores.protocol import Session

__all__ = ["Viewer"]

SWITCH_SECONDS = 60.0
"""How long the switch holds. Each change sends a message to all processes, so it must be rare."""
AGAIN_SECONDS = 5.0
"""After a renewal that failed. One or two failures do not end the switch."""
WINDOW_SLOTS = 6
"""Complete slots in one snapshot: half a minute."""


class Viewer:
    """`async with`: the fleet publishes within the block, as far as its processes use the store.

    `shows_names`: names of entries, which contain values of parameters; else their hashes. If two viewers watch, the
    switch of the last one decides what is published. A viewer without names hides them in any case. Raises
    `StoreError` if the store is away or refuses.
    """

    def __init__(
        self,
        console: Console,
        session: Session,
        namespace: str,
        *,
        shows_names: bool = False,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._console = console
        self._session = session
        self._namespace = namespace
        self._shows_names = shows_names
        self._switch = Switch("on", 1.0 if shows_names else 0.0, SWITCH_SECONDS)
        self._pause = pause
        self._renewal: asyncio.Task[None] | None = None
        self.began = 0.0
        """Seconds since 1970 by the server's clock."""

    async def __aenter__(self) -> Viewer:
        await self._session.switch(self._namespace, WATCH_TITLE, self._switch)
        self.began = await self._console.now()
        self._renewal = asyncio.create_task(self._renew(), name="stampede_guard watch")
        return self

    async def __aexit__(self, *_: object) -> None:
        # The switch is left to end by itself: another viewer may watch as well.
        if self._renewal is not None:
            self._renewal.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._renewal

    async def _renew(self) -> None:
        wait = SWITCH_SECONDS / 2
        while True:
            await self._pause(wait)
            try:
                await self._session.switch(self._namespace, WATCH_TITLE, self._switch)
                wait = SWITCH_SECONDS / 2
            except StoreError:
                # Reads may go on, and no other task would begin the watch again.
                wait = AGAIN_SECONDS

    async def look(self, *, slots: int = WINDOW_SLOTS) -> Snapshot:
        """The newest complete slots since this watch began, at most so many."""
        if self._renewal is not None and self._renewal.done():
            self._renewal.result()
        last = int(await self._console.now() // WATCHED.seconds) - 1
        first = max(last - slots + 1, int(self.began // WATCHED.seconds) + 1)
        found = await self._console.slots_of(self._namespace, WATCHED, range(first, last + 1))
        return snapshot(found, shows_names=self._shows_names)

    async def happened(self, *, most: int = 200) -> list[Happening]:
        """The newest faults, births, leases, jobs and acts of operators, oldest first."""
        found = await self._console.happened(self._namespace, most=most)
        # Processes of earlier versions write their herds into this stream.
        return self._visible(one for one in found if one.kind not in HERD_KINDS)

    async def herd_lines(self, *, most: int = 200) -> list[Happening]:
        """The newest steps of herds, and with them what `happened` tells; oldest first. At most so many of each."""
        others = await self._console.happened(self._namespace, most=most)
        steps = await self._console.happened(self._namespace, most=most, stream=HERDS)
        return self._visible(sorted(others + steps, key=lambda one: one.at))

    def _visible(self, found: Iterable[Happening]) -> list[Happening]:
        return [one if self._shows_names else masked(one) for one in found]
