"""One server as a session uses it: three connections of its own, and whether it counts as away.

One lane for reads and scripts, one for renewals (a renewal never waits behind a large value), one subscription. Each
connects when it is first used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from redis.asyncio.connection import AbstractConnection

from stampede_guard.core import breaker
from stampede_guard.core.breaker import Breaker
from stampede_guard.core.scripts import Message
from stampede_guard.errors import StoreError, StoreUnavailable
from stampede_guard.stores.calls import CommandCall, probe_call
from stampede_guard.stores.inbox import Inbox
from stampede_guard.stores.lane import Lane
from stampede_guard.stores.wire import value_key

__all__ = ["Node"]


class Node:
    """`deadline` bounds everything, in seconds. `on_breaker(away)` is called when the breaker opens or closes.

    Who uses the node probes it: an open breaker is closed by the probe's answer only.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractConnection],
        *,
        deadline: float,
        inbox: str,
        on_message: Callable[[str, Message], None],
        on_gap: Callable[[], None],
        on_change: Callable[[str, int], None],
        on_breaker: Callable[[bool], None],
        not_serving: Callable[[BaseException], bool] | None = None,
    ) -> None:
        self.away = False
        self.asked_for = ""
        """In a cluster, the entry that was asked for last: the probe asks for it, too."""
        self._breaker = Breaker()
        self._on_breaker = on_breaker
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self.lane, self.renewals = (
            Lane(connect, deadline=deadline, on_change=self._changed, not_serving=not_serving)
            for _ in range(2)
        )
        self.inbox = Inbox(
            inbox, connect, deadline=deadline, on_message=on_message, on_gap=on_gap, on_change=on_change
        )

    async def ask(self, *parts: bytes) -> Any:
        """The answer to a command. Raises `StoreError`."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self.lane.send(CommandCall(list(parts), future))
        return await future

    async def probe(self) -> bool:
        """Find out whether the server is there. False: no answer, or one that says that it cannot serve."""
        serves = await self._serves()
        if serves:
            self._set(breaker.succeeded(self._breaker))
        return serves

    async def _serves(self) -> bool:
        future: asyncio.Future[Any] = self._loop.create_future()
        self.lane.send(probe_call(future, key=value_key(self.asked_for) if self.asked_for else b""))
        try:
            await future
        except StoreUnavailable:
            return False
        except StoreError:
            return True
        return True

    def _changed(self, ok: bool) -> None:
        if not ok:
            self._set(breaker.failed(self._breaker))
        elif self._breaker.failures and not self.away:
            # While it is open, the probe closes it: a replica that was a master answers the reads that are under way.
            self._set(breaker.succeeded(self._breaker))

    def _set(self, changed: Breaker) -> None:
        self._breaker = changed
        if changed.is_open == self.away or self._closing:
            return
        self.away = changed.is_open
        self._on_breaker(self.away)

    async def aclose(self) -> None:
        self._closing = True
        await self.inbox.aclose()
        await self.lane.aclose()
        await self.renewals.aclose()

    def abandon(self) -> None:
        self._closing = True
        self.inbox.abandon()
        self.lane.abandon()
        self.renewals.abandon()
