"""What a guard keeps per event loop: the store's session, the flights, and the values seen last.

It is the session's listener: messages, gaps and the breaker's changes arrive here and go to the flights concerned.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import uuid
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from stampede_guard.closing import Closing
from stampede_guard.core.entry import Reading
from stampede_guard.core.scripts import Message
from stampede_guard.core.switch import Switch
from stampede_guard.errors import Overloaded, StoreError, StoreRefused, Undecodable
from stampede_guard.events import BreakerClosed, BreakerOpened, Collapsed
from stampede_guard.flight import Flight
from stampede_guard.flights import Flights
from stampede_guard.hooks import Hooks
from stampede_guard.lastvalues import LastValues
from stampede_guard.near import Near
from stampede_guard.pauses import Pauses
from stampede_guard.pending import PendingInvalidations
from stampede_guard.shadow import Shadow
from stampede_guard.slots import Slots
from stampede_guard.switches import Switches
from stampede_guard.tagged import LocalTags, tags_of
from stampede_guard.threads import Threads

if TYPE_CHECKING:
    from stampede_guard.batch import Batches
    from stampede_guard.plan import Plan, Run, Variables
    from stampede_guard.policy import Policy
    from stampede_guard.stores.protocol import Store

__all__ = ["Runtime"]

log = logging.getLogger("stampede_guard")


class Runtime:
    """Made within the event loop that it serves."""

    def __init__(
        self,
        store: Store,
        policy: Policy,
        hooks: Hooks | None = None,
        *,
        namespace: str = "",
        on_switches: Callable[[Mapping[str, Switch]], None] = lambda fleet: None,
        known_switches: Callable[[], Mapping[str, Switch]] = dict,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.flights = Flights()
        self.fallbacks: dict[str, asyncio.Task[Any]] = {}
        self.hooks = hooks if hooks is not None else Hooks()
        self.closing = False
        self.away = False
        """Also while invalidations wait for the store: until they are applied it has older values."""
        self.refused = False
        """Whether the store answered last that it lets this guard in no more (a password, a permission)."""
        self.batches: weakref.WeakKeyDictionary[object, Batches] = weakref.WeakKeyDictionary()
        """By decorated function, as long as there is that: one that is made per request is not kept."""
        self.remembered: Reading | None = None
        """The reading remembered last. One reading serves all callers of its tick; to remember it once is enough."""
        self.last = LastValues(policy.last_value_bytes)
        self.now: Callable[[], float] = getattr(store, "clock", self.loop.time)
        """By which last values and pauses grow old: the store's own clock if it is one of this process."""
        self.threads = Threads(policy.max_threads)
        """For plain functions. None is started before the first of them computes."""
        self.slots = Slots()
        self.asked_early = Pauses(self.loop)
        """Entries whose early refresh was somebody else's a moment ago."""
        self.failing = Pauses(self.loop, self.now)
        """Entries whose computation failed a moment ago; or whose refresh would be in vain, because nothing may be
        stored. Their stale hits do not ask the store."""
        self._policy = policy
        self._id = uuid.uuid4().hex
        self._numbers = itertools.count(1)
        self._abandoned: set[asyncio.Task[Any]] = set()
        self._end: asyncio.Task[None] | None = None
        self._warned_refused = False
        self.session = store.open_session(self)
        self.tags = LocalTags(self.last.clear)
        self._pending = PendingInvalidations(
            self.session, applied=self._invalidation_applied, changed=self._note_whether_away
        )
        self.read = self.session.read
        self.shadow = Shadow(self)
        self._modes_name = f"{namespace}:modes"
        self._switches = Switches(lambda: self.session.switches(namespace), on_switches, known_switches)
        self.near = Near(self._hears, max_bytes=policy.l1_bytes, max_entries=policy.l1_entries)
        # A store with a clock of its own is one in this process: a test that moves it moves all lifetimes.
        self.near.clock = getattr(store, "clock", self.near.clock)

    # --- flights -------------------------------------------------------------------------------

    def away_for(self, name: str, tags: tuple[str, ...] = ()) -> bool:
        """Also true while an invalidation of this entry waits: until it is applied the store has an older value.

        And so for its tags: without them nobody knows what its value is worth.
        """
        return self.away and any(
            part in self._pending or self.session.away_for(part) for part in (name, *tags)
        )

    @property
    def abandoned(self) -> int:
        """Computations that did not end when they were cancelled, and still run."""
        return len(self._abandoned)

    def new_id(self) -> str:
        return f"{self._id}:{next(self._numbers)}"

    def draw(self) -> float:
        return random.random()

    def take_off(
        self,
        name: str,
        plan: Plan,
        run: Run,
        variables: Variables,
        *,
        bypassed: bool = False,
        refreshing: bool = False,
        newer_than: int = 0,
        alone: bool = False,
    ) -> Flight:
        """The flight of this entry in this process: a new one, or the one under way. `alone`: for a single caller."""
        flight = self.flights.get(name)
        if flight is not None and not alone and not flight.lets_nobody_wait:
            return flight
        # One that nobody else can find.
        place = name if flight is None and not alone else f"{name}\0{next(self._numbers)}"
        if self.closing:
            raise Overloaded(f"{plan.title}: this guard is closing")
        if len(self.flights) >= plan.policy.max_flights:
            raise Overloaded(f"{plan.title}: {len(self.flights)} flights are under way already (max_flights)")
        flight = Flight(
            self,
            name,
            plan,
            run,
            variables,
            away=self.away_for(name, tags_of(run)),
            bypassed=bypassed,
            refreshing=refreshing,
            newer_than=newer_than,
        )
        flight.place = place
        self.flights.add(flight)
        return flight

    def landed(self, flight: Flight) -> None:
        """Forgotten when it lands: nothing grows with the number of keys."""
        self.flights.forget(flight)
        collapsed = flight.joined - 1
        if self.hooks and flight.passengers.collapsed:
            self.hooks.tell(Collapsed(flight.plan.title, flight.name, flight.passengers.collapsed))
        if collapsed > 0 and not self.hooks.logs_herds and log.isEnabledFor(logging.INFO):
            log.info(
                "%s: %d callers were served by one flight",
                flight.plan.title,
                flight.joined,
                extra={"function": flight.plan.title, "callers": flight.joined, "collapsed": collapsed},
            )

    async def unwind(self, task: asyncio.Task[Any], seconds: float) -> None:
        """Cancel a computation and give it `seconds` to end; what does not end is left alone, and counted."""
        task.cancel()
        await asyncio.wait({task}, timeout=seconds)
        if not task.done():
            self._abandoned.add(task)
            task.add_done_callback(self._abandoned.discard)
            log.warning(
                "a cancelled computation does not end; it is left to itself (%d such)", self.abandoned
            )
        task.add_done_callback(_look_at)

    def remember(self, name: str, reading: Reading) -> None:
        self.remembered = reading
        if name in self._pending and reading.token:
            # Asked for before the invalidation, answered after it. Nothing in the store is news until it is applied.
            return
        self.last.keep(name, reading, now=self.now())

    # --- the session's listener ----------------------------------------------------------------

    def heard(self, name: str, message: Message) -> None:
        for flight in self.flights.concerned(name, message):
            flight.hear(message)
        if name == self._modes_name:
            self._switches.look()

    def watch_switches(self) -> None:
        """From the first call on that may ask the store: who is to leave it alone does not ask it for this either."""
        if not self.closing:
            self._switches.start()

    def changed(self, name: str, fence: int) -> None:
        self.near.changed(name, fence)

    def gap(self) -> None:
        self._switches.look()
        self.near.flush()
        for flight in self.flights.values():
            flight.notice_gap()

    def breaker_changed(self, *, away: bool, part: str = "", why: str = "") -> None:
        self._note_whether_away()
        if self.hooks:
            self.hooks.tell(BreakerOpened(part) if away else BreakerClosed(part))
        what = f"the store's server {part}" if part else "the store"
        if away:
            known = f" ({why})" if why else ""
            log.warning(
                "%s is away%s: one flight per key in each process, nothing is stored meanwhile", what, known
            )
        else:
            log.warning("%s is back", what)
            # Those who wait ask again within a poll_interval, and a lease that a restart has lost is free.
            for flight in self.flights.values():
                flight.computation.renew_now()
            self._pending.apply()

    # --- invalidation --------------------------------------------------------------------------

    async def invalidate(self, name: str, policy: Policy) -> int | None:
        """The new fence. None: the store is away, or takes no writes for now; it will be done when it can be.

        Raises `StoreRefused` when the store answers that this client may not (a permission, a password): then it is
        not done and will not be, and who changed the data should hear of it.
        """
        self.forget_local(name)
        fence = await self._pending.now(name, policy)
        if fence is None:
            # A read of before may have been answered while the store was asked in vain.
            self.near.drop(name)
        else:
            # A read of before may have been remembered while the command was on its way, or may be answered yet.
            self.forget_local(name, fence=fence)
        return fence

    async def invalidate_tag(self, tag: str) -> bool:
        """As `invalidate`, for all entries with this tag, whose number makes no difference."""
        self.forget_tag(tag)
        done = await self._pending.now(tag, None) is not None
        if done:
            self.forget_tag(tag, settled=True)
        else:
            self.near.changed(tag, 1)
        return done

    def forget_tag(self, tag: str, *, settled: bool = False) -> None:
        self.tags.mark(tag)
        self.near.changed(tag, 1)
        if settled:
            self.tags.settle(tag)
        for flight in self.flights.values():
            if tag in flight.tags:
                flight.invalidated()

    def _invalidation_applied(self, name: str, fence: int) -> None:
        self.last.drop(name, fence=fence)
        self.near.changed(name, fence)
        self.tags.settle(name)

    async def outdate(self, name: str, policy: Policy) -> None:
        """A refreshed value could not be stored: what it was to replace must not outlive it."""
        if self.away_for(name):
            # Without forgetting the new value, which this process keeps for the time being.
            self._pending.add(name, policy)
            self.near.drop(name)
            return
        try:
            await self.invalidate(name, policy)
        except StoreRefused:
            # Its caller has asked for a value and has one.
            self._pending.add(name, policy)
            self.near.drop(name)

    def forget_local(self, name: str, *, fence: int = 0) -> None:
        self.last.drop(name, fence=fence)
        if fence:
            self.near.changed(name, fence)
        else:
            self.near.drop(name)
        for flight in self.flights.of(name):
            flight.invalidated()

    def _hears(self, name: str) -> bool:
        """Nothing in the store is news of an entry whose invalidation waits."""
        return name not in self._pending and self.session.hears_changes(name)

    def _note_whether_away(self) -> None:
        self.away = self.session.away or bool(self._pending)

    # --- warnings ------------------------------------------------------------------------------

    def warn_once(self, plan: Plan, what: str, text: str) -> None:
        if what not in plan.warned:
            plan.warned.add(what)
            log.warning("%s", text)

    def warn_if_too_large(self, plan: Plan, body: bytes) -> None:
        most = plan.policy.max_value_bytes
        if len(body) > most:
            text = f"a value of {len(body)} bytes is served but not stored; max_value_bytes is {most}"
            self.warn_once(plan, "too large", f"{plan.title}: {text}")

    def warn_undecodable(self, plan: Plan, error: Undecodable) -> None:
        self.warn_once(
            plan,
            "undecodable",
            f"{plan.title}: a stored value cannot be decoded and counts as a miss: {error}",
        )

    def note_refusal(self, error: StoreError) -> None:
        self.refused = True
        if not self._warned_refused:
            self._warned_refused = True
            log.error("the store refuses this guard, so every process computes for itself: %s", error)

    # --- the end -------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Let flights end for `drain_timeout` seconds, end the rest and give their leases back, disconnect.

        Cancelled, it does so without letting them end. That goes on by itself when it is cancelled once more.
        """
        self.closing = self._pending.closing = True
        drain_timeout = self._policy.drain_timeout
        closing = Closing(self, self._pending, self._switches, drain_timeout=drain_timeout)
        self._end = closing.task
        try:
            await asyncio.shield(closing.task)
        except asyncio.CancelledError:
            closing.cut_short()
            await asyncio.wait({closing.task})
            raise

    def abandon(self) -> None:
        """After a fork, in the child: nothing here is ours."""
        self.closing = self._pending.closing = True
        self.session.abandon()


def _look_at(task: asyncio.Task[Any]) -> None:
    """So that the end of a computation nobody waits for is not reported as forgotten."""
    if not task.cancelled():
        task.exception()
