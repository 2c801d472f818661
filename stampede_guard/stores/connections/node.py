"""One server as a session uses it: three connections, and whether the server counts as away.

There is one lane for reads and scripts, one lane for renewals and one subscription. A renewal therefore never waits
behind a large value. Each connects when it is first used.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from typing import Any

from redis.asyncio.connection import AbstractConnection

from stampede_guard.core import breaker
from stampede_guard.core.breaker import Breaker
from stampede_guard.core.scripts import Message
from stampede_guard.errors import StoreError, StoreMisconfigured, StoreUnavailable
from stampede_guard.stores.connections.calls import CommandCall, probe_call
from stampede_guard.stores.connections.inbox import Inbox
from stampede_guard.stores.connections.lane import Lane
from stampede_guard.stores.connections.replies import reason
from stampede_guard.stores.connections.wire import value_key

__all__ = ["Node"]


class Node:
    """`deadline` limits everything, in seconds. `on_breaker(away)` is called when the breaker opens or closes.

    The session that uses the node probes it. Only the probe's answer closes an open breaker.
    """

    def __init__(
        self,
        connect: Callable[[], AbstractConnection],
        *,
        client_name: str,
        deadline: float,
        inbox: str,
        on_message: Callable[[str, Message], None],
        on_gap: Callable[[], None],
        on_change: Callable[[str, int], None],
        on_breaker: Callable[[bool], None],
        not_serving: Callable[[BaseException], bool] | None = None,
        on_sample: Callable[[float], None] | None = None,
    ) -> None:
        self.away = False
        self.asked_for = ""
        """In a cluster, the entry of the last command. The probe uses its key."""
        self.trouble: StoreError | None = None
        self.why = ""
        """The last failure, for the log."""
        self._breaker = Breaker()
        self._on_breaker = on_breaker
        self._closing = False
        self._loop = asyncio.get_running_loop()
        self._on_gap = on_gap
        self._was_connected = False
        self._inbox_name = inbox.encode()
        self.lane = Lane(
            connect,
            client_name=client_name,
            deadline=deadline,
            on_change=self._changed,
            not_serving=not_serving,
            on_connected=self._connected,
            on_sample=on_sample,
        )
        self.renewals = Lane(
            connect,
            client_name=client_name,
            deadline=deadline,
            on_change=self._changed,
            not_serving=not_serving,
        )
        self.inbox = Inbox(
            inbox,
            connect,
            client_name=client_name,
            deadline=deadline,
            on_message=on_message,
            on_gap=self._gap,
            on_change=on_change,
        )

    async def ask(self, *parts: bytes) -> Any:
        """The answer to a command. Raises `StoreError`."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self.lane.send(CommandCall(list(parts), future))
        return await future

    async def probe(self) -> bool:
        """Find out whether the server can serve. False: no answer, or the answer that it cannot serve."""
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

    # --- one address, several servers -------------------------------------------------------------

    def _connected(self) -> None:
        again, self._was_connected = self._was_connected, True
        self._compare_places(moved=again)

    def _gap(self) -> None:
        self._on_gap()
        self._compare_places(moved=False)

    def _compare_places(self, *, moved: bool) -> None:
        """Ask the server of the commands whether it has the subscription. Done after each new connection of either.

        1. The master freezes.
        2. Commands time out. Sentinels, a name or a proxy now lead to the new master.
        3. The old master goes on before the subscription noticed its absence. The subscription stands, but receives no
           messages. And the new master takes this process for dead.

        `moved`: the commands may have gone elsewhere. If the user may not run NUMSUB, the subscription is then renewed.
        """
        if self._closing or not self.inbox.confirmed_name or not self.lane.connected:
            return
        future: asyncio.Future[Any] = self._loop.create_future()
        future.add_done_callback(functools.partial(self._compared, self.inbox.subscriptions, moved))
        self.lane.send(CommandCall([b"PUBSUB", b"NUMSUB", self._inbox_name], future))

    def _compared(self, subscription: int, moved: bool, future: asyncio.Future[Any]) -> None:
        error = None if future.cancelled() else future.exception()
        if self._closing or future.cancelled() or isinstance(error, StoreUnavailable):
            return
        reply: Any = future.result() if error is None else None
        known = isinstance(reply, list) and len(reply) == 2 and isinstance(reply[1], int)
        if known and reply[1] > 0:
            self.inbox.is_well_placed()
        elif subscription == self.inbox.subscriptions and (known or moved):
            self.inbox.renew()
            if known and self.renewals.connected:
                self.renewals.leave()

    def _changed(self, failure: StoreError | None) -> None:
        if failure is not None:
            before, self.trouble = self.trouble, failure
            self.why = reason(failure)
            self._set(breaker.failed(self._breaker))
            if self.away and _is_news(failure, before) and not self._closing:
                # The server came back, but its certificate has expired in the time between.
                self._on_breaker(True)
        elif self._breaker.failures and not self.away:
            # Only the probe closes an open breaker: a demoted master still answers the reads sent before.
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


def _is_news(failure: StoreError, before: StoreError | None) -> bool:
    return isinstance(failure, StoreMisconfigured) and not isinstance(before, StoreMisconfigured | None)
