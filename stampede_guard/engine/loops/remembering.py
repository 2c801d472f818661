"""The memories of one event loop's part of a guard, and how they forget.

There are three memories: last values (for the time when the store is away), copies (L1), and the old values of flights.
One rule holds for all of them. A value that was read, requested or computed before an invalidation began is not
remembered after it. This holds in every event loop of this process, whether the invalidation is done or pending. A
value that the store has dropped or replaced is not remembered either, as soon as this process knows it.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from stampede_guard.core.entry import Reading
from stampede_guard.engine.flights.registry import Flights, bypassed_name
from stampede_guard.errors import StoreRefused

if TYPE_CHECKING:
    from stampede_guard.engine.away.last_seen import LastSeen, Proof
    from stampede_guard.engine.away.pending import PendingInvalidations
    from stampede_guard.engine.away.unsettled import Unsettled
    from stampede_guard.engine.l1 import L1
    from stampede_guard.engine.tags.versions import LocalTags
    from stampede_guard.policy import Policy
    from stampede_guard.stores.protocol import Session

__all__ = ["Remembering"]


class Remembering:
    """The part of a `Runtime` that remembers values. `orders`: requests of other threads to forget something here."""

    away: bool
    away_for: Callable[..., bool]
    abandon: Callable[[], None]
    closing: bool
    flights: Flights
    last: LastSeen
    loop: asyncio.AbstractEventLoop
    l1: L1
    now: Callable[[], float]
    orders: collections.deque[Callable[[Remembering], None]]
    remembered: Reading | None
    session: Session
    tags: LocalTags
    unsettled: Unsettled
    _has_handed_over = False
    _pending: PendingInvalidations

    # --- values --------------------------------------------------------------------------------

    def remember(self, name: str, reading: Reading, *, proof: Proof | None = None) -> None:
        self.remembered = reading
        if self.orders:
            self.obey()
        if name in self.unsettled.names and reading.token:
            # Requested before the invalidation, answered after it. Until that is applied, the store's values are old.
            return
        if not self.last.has_seen(name, reading):
            self.last.keep(name, reading, now=self.now(), proof=proof)

    def learn(self, name: str, reading: Reading) -> None:
        """A flight has stored or found this value. No event loop of this process may serve an older one."""
        self.remember(name, reading)
        if reading.token:
            self.outdate_older(name, reading.token)

    def outdate_older(self, name: str, token: int) -> None:
        self.l1.changed(name, token)
        for other in self.unsettled.others(self):
            other.order(lambda other: other.changed(name, token))
            # Expire after the order. A value that is kept there later is kept by code that has obeyed the order.
            other.l1.expire(name, below=token)

    def order(self, *orders: Callable[[Remembering], None]) -> None:
        """Ask this event loop to forget something. From any thread."""
        self.orders.extend(orders)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self.loop.call_soon_threadsafe(self.obey)

    def obey(self) -> None:
        """Called before a caller is served or joins, and not only in the loop's next turn.

        1. A coroutine calls `invalidate` of a plain function, which blocks its event loop. 2. In the same turn
        it calls the cached function.
        """
        while self.orders:
            self.orders.popleft()(self)

    def missing(self, name: str) -> None:
        """A caller's read found no value. An earlier value must not come back.

        1. This process knows a value. 2. Another process invalidates it and receives "done". 3. The store answers reads
        and refuses writes for now, so no flight can get a lease.
        """
        self.last.missing(name)

    def changed(self, name: str, fence: int) -> None:
        self.l1.changed(name, fence)
        self.last.outdate(name, fence=fence)

    # --- invalidation --------------------------------------------------------------------------

    async def invalidate(self, name: str, policy: Policy) -> int | None:
        """The new fence. None: the store is away or refuses writes for now; the invalidation is applied later.

        Raises `StoreRefused` when the store does not allow it for this client (a permission, a password). Then it will
        never be done, and the caller that changed the data must know.
        """
        return await self.replace(name, lambda: self._pending.now(name, policy))

    async def replace(self, name: str, change: Callable[[], Awaitable[int | None]]) -> int | None:
        """Make a `change` in the store after which no older value may be served. It returns the new fence."""
        self.unsettled.begin(name)
        try:
            self._tell_others(name, lambda other: other.forget_local(name))
            self.forget_local(name)
            fence = await change()
            self._hand_on()
        finally:
            self.unsettled.end(name)
        # Order it again. Messages may arrive later than this or never, and an earlier read may be answered only now.
        self._tell_others(name, lambda other: other.forget_values(name, fence=fence or 0))
        self.forget_values(name, fence=fence or 0)
        return fence

    async def invalidate_tag(self, tag: str) -> bool:
        """Like `invalidate`, for all entries with this tag. The cost does not depend on their number."""
        self.unsettled.begin(tag)
        try:
            self._tell_others(tag, lambda other: other.forget_tag(tag))
            self.forget_tag(tag)
            done = await self._pending.now(tag, None) is not None
            self._hand_on()
        finally:
            self.unsettled.end(tag)
        if done:
            self._tell_others(tag, lambda other: other.forget_tag(tag, settled=True))
            self.forget_tag(tag, settled=True)
        return done

    def forget_tag(self, tag: str, *, settled: bool = False) -> None:
        self.tags.mark(tag)
        self.l1.changed(tag, 1)
        if settled:
            self.tags.settle(tag)
        for flight in self.flights.values():
            if tag in flight.tags:
                flight.invalidated()

    def _invalidation_applied(self, name: str, fence: int) -> None:
        self._tell_others(name, lambda other: other.forget_applied(name, fence))
        self.forget_applied(name, fence)

    def forget_applied(self, name: str, fence: int) -> None:
        """The store has carried out a pending invalidation. `name` may be a tag's."""
        self.forget_values(name, fence=fence)
        self.tags.settle(name)

    async def outdate(self, name: str, policy: Policy, *, late: bool = False) -> None:
        """A refreshed value could not be stored. The old value that it replaces must not outlive it.

        `late`: the caller has already waited for the store without success.
        """
        if late or self.away_for(name):
            # Do not forget the new value: this event loop keeps it for now.
            self._let_wait(name, policy)
            return
        try:
            await self.invalidate(name, policy)
        except StoreRefused:
            # Its caller asked for a value and has one.
            self._let_wait(name, policy)

    def wait_with(self, name: str, policy: Policy) -> None:
        """Invalidate the entry as soon as its server is there."""
        self._pending.add(name, policy)

    def _let_wait(self, name: str, policy: Policy) -> None:
        self._pending.add(name, policy)
        self.l1.drop(name)
        self._tell_others(name, lambda other: other.forget_local(name))
        self._hand_on()

    def forget_local(self, name: str) -> None:
        """An invalidation begins: forget the values. Running computations serve only the callers that came before."""
        self.forget_values(name)
        for flight in [*self.flights.of(name), *self.flights.of(bypassed_name(name))]:
            flight.invalidated()

    def forget_values(self, name: str, *, fence: int = 0) -> None:
        """With a `fence`, also forget values with a smaller token that arrive later."""
        self.last.drop(name, fence=fence)
        if fence:
            self.l1.changed(name, fence)
        else:
            self.l1.drop(name)

    def _tell_others(self, name: str, order: Callable[[Remembering], None]) -> None:
        """Give an order to the parts of other event loops of this process. `name` may be a tag's."""
        for other in self.unsettled.others(self):
            other.l1.expire_tag(name)
            other.order(order)
            # Expire after the order. A value that is kept there later is kept by code that has obeyed the order.
            other.l1.expire(name)

    def _hears(self, name: str) -> bool:
        """For an entry whose invalidation waits, changes in the store do not count."""
        return name not in self.unsettled.names and self.session.hears_changes(name)

    def note_whether_away(self) -> None:
        """May be called from any thread."""
        with self.unsettled.lock:
            self.away = self.session.away or bool(self.unsettled.pending)

    def _hand_on(self) -> None:
        """1. The store is asked. 2. The guard closes and hands over. 3. No answer comes, so one more is pending."""
        if self._has_handed_over:
            self.hand_over()

    def hand_over(self) -> None:
        """Give pending invalidations to another event loop of this guard, if there is one."""
        self._has_handed_over = True
        self.unsettled.leave(self)
        heirs = [other for other in self.unsettled.others(self) if not other.closing]
        # Running loops first: a loop that stands still may never continue.
        heirs.sort(key=lambda other: not other.loop.is_running())
        self._pending.hand_over([(heir._pending, heir.loop) for heir in heirs])

    def take_over(self) -> None:
        """Take over from loops that ended without closing the guard. Their pending work would wait for ever."""
        for other in self.unsettled.take_ended():
            other.abandon()
            other.hand_over()
