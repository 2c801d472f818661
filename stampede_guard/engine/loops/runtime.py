"""The part of a guard that belongs to one event loop: the store's session, the flights, and the last values.

It is the session's listener. Messages, gaps and the breaker's changes arrive here and go to the flights concerned.
"""

from __future__ import annotations

import asyncio
import collections
import logging
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Message
from stampede_guard.core.states import FlightKind
from stampede_guard.engine.away.health import Health
from stampede_guard.engine.away.last_seen import LastSeen
from stampede_guard.engine.away.pending import PendingInvalidations
from stampede_guard.engine.away.slots import Slots
from stampede_guard.engine.away.unsettled import Unsettled
from stampede_guard.engine.flights.backoff import Backoff
from stampede_guard.engine.flights.flight import Flight
from stampede_guard.engine.flights.once import Once
from stampede_guard.engine.flights.registry import Flights
from stampede_guard.engine.hooks import Hooks
from stampede_guard.engine.l1 import L1
from stampede_guard.engine.loops.closing import Closing
from stampede_guard.engine.loops.invalidating import Invalidating
from stampede_guard.engine.modes.shadow import Shadow
from stampede_guard.engine.modes.switches import Switches
from stampede_guard.engine.stats.herdlog import HerdLog
from stampede_guard.engine.stats.publishers import NOTHING_TO_PUBLISH, Publishers
from stampede_guard.engine.tags.versions import LocalTags
from stampede_guard.engine.threads.threads import Threads
from stampede_guard.errors import (
    Overloaded,
    StoreError,
    StoreMisconfigured,
    StoreRefused,
)
from stampede_guard.events import Collapsed, L1Sized, RoundTrip
from stampede_guard.stores.switch import Switch

if TYPE_CHECKING:
    from stampede_guard.engine.flights.batch import Batches
    from stampede_guard.engine.plan import Plan, Run, Variables
    from stampede_guard.engine.stats.counting import Sums
    from stampede_guard.engine.stats.watching import Watching
    from stampede_guard.policy import Limits
    from stampede_guard.stores.protocol import Store

__all__ = ["Runtime"]

log = logging.getLogger("stampede_guard")

MOST_LATE = 1_000
"""Limit of entries whose callers waited for a store that did not answer, until they join their flights."""
MOST_UNKEPT = 1_000


class Runtime(Invalidating):
    """Created inside the event loop that it serves."""

    closing = False
    found_fresh: Reading | None = None
    """The fresh reading served last. It is judged once for all callers of its tick."""
    publishers = NOTHING_TO_PUBLISH
    _end: asyncio.Task[None] | None = None

    def __init__(
        self,
        store: Store,
        limits: Limits,
        hooks: Hooks | None = None,
        *,
        health: Health | None = None,
        namespace: str = "",
        on_switches: Callable[[Mapping[str, Switch]], None] = lambda fleet: None,
        known_switches: Callable[[], Mapping[str, Switch]] = dict,
        switch_ends: dict[str, float] | None = None,
        unsettled: Unsettled | None = None,
    ) -> None:
        super().__init__()
        self.loop = asyncio.get_running_loop()
        self.limits = limits
        self.unsettled = unsettled if unsettled is not None else Unsettled()
        self.orders: collections.deque[Callable[[Invalidating], None]] = collections.deque()
        """Requests of other threads to forget something here. Obeyed before any value is served: see `obey`."""
        self.flights = Flights()
        self.fallbacks: dict[str, asyncio.Task[Any]] = {}
        self.fallback_ends: dict[str, Once] = {}
        self.hooks = hooks if hooks is not None else Hooks()
        self.health = health if health is not None else Health(self.hooks)
        self.away = False
        """True also while invalidations wait for the store: until they are applied it has older values."""
        self.batches: weakref.WeakKeyDictionary[object, Batches] = weakref.WeakKeyDictionary()
        """By decorated function, as long as that exists. One that is made per request is not kept."""
        self.remembered: Reading | None = None
        """The reading remembered last. One reading serves all callers of its tick, and is remembered only once."""
        self.last = LastSeen(limits.last_value_bytes)
        self.now: Callable[[], float] = getattr(store, "clock", self.loop.time)
        """The clock for the age of last values and pauses: the store's own clock if the store is in this process."""
        self.threads = Threads(limits.max_threads)
        """Threads for plain functions. The first one starts when the first plain function computes."""
        self.slots = Slots()
        self.herds = HerdLog(self.loop)
        self.asked_early = Backoff(self.loop)
        """Entries whose early refresh belonged to another process a moment ago."""
        self.failing = Backoff(self.loop, self.now)
        """Entries whose computation failed a moment ago, or whose refresh would be useless because nothing may be
        stored. Their stale hits send no command to the store."""
        self.session = store.open_session(self, namespace=namespace)
        self.tags = LocalTags(self.last.clear)
        self._pending = PendingInvalidations(
            self.session, applied=self._invalidation_applied, names=self.unsettled, health=self.health
        )
        self._pending.settled = self._settled
        self.read = self.session.read
        self.shadow = Shadow(self)
        self._namespace = namespace
        self._modes_name = f"{namespace}:modes"
        self._switches = Switches(self._read_switches, on_switches, known_switches, ends=switch_ends)
        self.l1 = L1(self._hears, max_bytes=limits.l1_bytes, max_entries=limits.l1_entries)
        # A store with its own clock is in this process: a test that moves this clock moves all lifetimes.
        self.l1.clock = getattr(store, "clock", self.l1.clock)
        self.l1.on_size = self._l1_sized
        self.unsettled.enter(self)
        self.note_whether_away()

    # --- flights -------------------------------------------------------------------------------

    def take_off(
        self,
        name: str,
        plan: Plan,
        run: Run,
        variables: Variables,
        *,
        kind: FlightKind = "foreground",
        newer_than: int = 0,
        alone: bool = False,
        apart: str = "",
    ) -> Flight:
        """The flight of this entry in this process: a new one, or the running one. `alone`: for a single caller.

        `apart` separates flights of one entry whose callers must not meet.
        """
        flight = self.flights.get(name + apart)
        if flight is not None and not alone and (flight.plan.share_uncached or not flight.lets_nobody_wait):
            return flight
        # A place that no other caller can find.
        place = name + apart if flight is None and not alone else f"{name}\0{next(self._numbers)}"
        if self.closing:
            raise Overloaded(f"{plan.title}: this guard is closing")
        if len(self.flights) >= self.limits.max_flights:
            raise Overloaded(f"{plan.title}: {len(self.flights)} flights are under way already (max_flights)")
        flight = Flight(self, name, plan, run, variables, kind=kind, newer_than=newer_than)
        flight.place = place
        self.flights.add(flight)
        if self.hooks.steps is not None:
            self.hooks.steps("asked", plan.title, name, {"flight": flight.id, "what": kind})
        return flight

    def may_refresh(self, name: str, old: Reading) -> bool:
        """Whether a flight that refreshes `old` in the background may begin, and is of use now."""
        return not (
            name in self.flights
            or self.closing
            or self.failing.hold(name, old.token)
            or len(self.flights) >= self.limits.max_flights
        )

    def note_late(self, name: str, error: StoreError) -> None:
        """A caller has waited for the store for the whole deadline without success, and will join a flight now."""
        if error.late and len(self.flights.late) < MOST_LATE:
            self.flights.late.add(name)

    def landed(self, flight: Flight) -> None:
        """Forget a flight when it lands, so that memory does not grow with the number of keys."""
        self.flights.forget(flight)
        collapsed = flight.joined - 1
        if self.hooks.any and flight.passengers.collapsed:
            self.hooks.tell(Collapsed(flight.plan.title, flight.name, flight.passengers.collapsed))
        if self.hooks.steps is not None:
            told = {"flight": flight.id, "callers": flight.joined, "collapsed": flight.passengers.collapsed}
            self.hooks.steps("landed", flight.plan.title, flight.name, told)
        if collapsed > 0 and not self.hooks.logs_herds:
            self.herds.landed(flight.plan.title, flight.joined)

    # --- the session's listener ----------------------------------------------------------------

    def heard(self, name: str, message: Message) -> None:
        for flight in self.flights.concerned(name, message):
            flight.hear(message)
        if name == self._modes_name:
            self._switches.look()

    async def read_switches(self) -> None:
        """This process has changed them."""
        await self._switches.read()

    def watch_switches(self) -> None:
        """Starts with the first call in a mode that uses the store: in other modes the store must not be asked."""
        if not self.closing:
            self._switches.start()
            self.publishers.start()

    def count_for_the_fleet(self, sums: Sums | None, watching: Watching | None) -> None:
        """From the first call that uses the store, publish these."""
        self.publishers = Publishers(self.session, self._namespace, lambda: self.away, sums, watching)

    def watch_changed(self) -> None:
        """Somebody begins or ends to watch the fleet."""
        if not self.closing:
            self.publishers.start()

    async def _read_switches(self) -> Mapping[str, Switch]:
        self.take_over()
        # Something may have cancelled all tasks of the event loop.
        if not self.closing:
            self.publishers.start()
        found = await self.session.switches(self._namespace)
        self.health.answered(self)
        if self.health.refusing:
            self.health.admitted("switches")
        return found

    def gap(self) -> None:
        self._switches.look()
        self.l1.flush()
        for flight in self.flights.values():
            flight.notice_gap()

    def breaker_changed(self, *, away: bool, part: str = "", why: str = "") -> None:
        self.note_whether_away()
        trouble = getattr(self.session, "trouble", None)
        wrong = str(trouble) if away and isinstance(trouble, StoreMisconfigured) else ""
        self.health.breaker(self, away=away, part=part, why=why, wrong=wrong)
        if not away:
            # Waiters ask again within a poll_interval. A lease that was lost in a restart is free.
            for flight in self.flights.values():
                flight.computation.renew_now()
            self.store_is_back()
            self._pending.apply()

    def _settled(self) -> None:
        """Until now, the store counted as away for these entries, in all event loops of this process."""
        for runtime in self.unsettled.all():
            runtime.order(lambda other: other.store_is_back())

    def store_is_back(self) -> None:
        """Perhaps not for all entries: whoever waits for a turn without the store looks."""
        for flight in self.flights.values():
            flight.computation.store_is_back()

    def not_kept(self, name: str, error: StoreRefused) -> None:
        title = next((flight.plan.title for flight in self.flights.of(name)), self._namespace)
        if len(self.unkept) >= MOST_UNKEPT:
            self.unkept.clear()  # their publications were never reported
        self.unkept.add(name)
        self.health.not_stored(title, name, error)

    def answered_within(self, part: str, seconds: float) -> None:
        if self.hooks.any:
            self.hooks.tell(RoundTrip(seconds, part))

    def _l1_sized(self, size: int, change: int) -> bool:
        if self.hooks.any:
            self.hooks.tell(L1Sized(size, change))
        return self.hooks.any

    # --- the end -------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Let flights end for `drain_timeout` seconds, cancel the rest and release their leases, disconnect.

        If this is cancelled, it skips the wait for the flights. If it is cancelled again, the rest continues by itself.
        """
        self.closing = self._pending.closing = True
        self.health.forget(self)
        drain_timeout = self.limits.drain_timeout
        closing = Closing(self, self._pending, self._switches, self.publishers, drain_timeout=drain_timeout)
        self._end = closing.task
        try:
            await asyncio.shield(closing.task)
        except asyncio.CancelledError:
            closing.cut_short()
            await asyncio.wait({closing.task})
            raise

    async def ended(self) -> None:
        """Wait for the end of an `aclose` that another caller has begun."""
        if self._end is not None:
            await asyncio.wait({self._end})

    def abandon(self) -> None:
        """After a fork, in the child: everything here belongs to the parent."""
        self.health.forget(self)
        self.closing = self._pending.closing = True
        self.session.abandon()
