"""The memories of one event loop's part of a guard: last values (for the time when the store is away) and copies (L1).

One rule holds for both, and for the old values of flights. A value that was read, requested or computed before an
invalidation began is not remembered after it. This holds in every event loop of this process, whether the invalidation
is done or pending. A value that the store has dropped or replaced is not remembered either, as soon as this process
knows it. `loops.invalidating` carries invalidations out.
"""

from __future__ import annotations

import collections
import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stampede_guard.core.entry import Reading
from stampede_guard.engine.ground.ground import Ground

if TYPE_CHECKING:
    from stampede_guard.engine.away.last_seen import LastSeen, Proof
    from stampede_guard.engine.l1 import L1

__all__ = ["Memories"]


class Memories(Ground):
    """A part of `Runtime`. `orders`: requests of other threads to forget something here."""

    last: LastSeen
    l1: L1
    now: Callable[[], float]
    orders: collections.deque[Callable[[Any], None]]
    remembered: Reading | None

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

    def order(self, *orders: Callable[[Any], None]) -> None:
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

    def forget_values(self, name: str, *, fence: int = 0) -> None:
        """With a `fence`, also forget values with a smaller token that arrive later."""
        self.last.drop(name, fence=fence)
        if fence:
            self.l1.changed(name, fence)
        else:
            self.l1.drop(name)

    def _hears(self, name: str) -> bool:
        """For an entry whose invalidation waits, changes in the store do not count."""
        return name not in self.unsettled.names and self.session.hears_changes(name)
