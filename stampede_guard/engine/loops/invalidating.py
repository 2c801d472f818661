"""How one event loop's part of a guard forgets: invalidations, here and in the other event loops of this process.

`ground.memories` has the rule.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from stampede_guard.engine.flights.registry import Flights, bypassed_name
from stampede_guard.engine.ground.memories import Memories
from stampede_guard.errors import StoreRefused

if TYPE_CHECKING:
    from stampede_guard.engine.away.pending import PendingInvalidations
    from stampede_guard.engine.tags.versions import LocalTags
    from stampede_guard.policy import Policy

__all__ = ["Invalidating"]


class Invalidating(Memories):
    """The part of a `Runtime` that invalidates."""

    abandon: Callable[[], None]
    closing: bool
    flights: Flights
    tags: LocalTags
    _has_handed_over = False
    _pending: PendingInvalidations

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

    def _tell_others(self, name: str, order: Callable[[Invalidating], None]) -> None:
        """Give an order to the parts of other event loops of this process. `name` may be a tag's."""
        for other in self.unsettled.others(self):
            other.l1.expire_tag(name)
            other.order(order)
            # Expire after the order. A value that is kept there later is kept by code that has obeyed the order.
            other.l1.expire(name)

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
