"""A store inside this process: the pure scripts on a dictionary. Other processes do not share it.

All event loops and threads of the process share the entries. Signal handlers may use them too: see `entries`. An
expired entry is removed when it is next touched. Every write also sweeps a few other entries, so that keys used once do
not pile up.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from stampede_guard.core import scripts, tags
from stampede_guard.core.entry import EMPTY, Entry, Reading, prune
from stampede_guard.core.scripts import (
    Answer,
    Ask,
    Denied,
    FallbackAsk,
    Found,
    Granted,
    Message,
    Messages,
    Outcome,
    Publication,
    Renewal,
)
from stampede_guard.errors import StoreRefused
from stampede_guard.options import takes_options
from stampede_guard.policy import Policy
from stampede_guard.stores.connections.wire import modes_name
from stampede_guard.stores.entries import Entries
from stampede_guard.stores.fleet.series import Series
from stampede_guard.stores.fleet.stream import HAPPENED, StreamName
from stampede_guard.stores.protocol import Listener
from stampede_guard.stores.switch import MOST_SWITCHES, WATCH_TITLE, Switch
from stampede_guard.values.forks import in_children
from stampede_guard.values.s3fifo import Bounded, Item

__all__ = ["MemorySession", "MemoryStore"]

T = TypeVar("T")

_STORES: weakref.WeakSet[MemoryStore] = weakref.WeakSet()

MOST_BYTES = 128 * 1024 * 1024
OVERHEAD = 1500
"""Bytes counted for an entry in addition to its name and bodies."""
SWEEP = 4
"""The number of other entries that a write looks at."""


@dataclass(frozen=True, slots=True)
class _Subscriber:
    loop: asyncio.AbstractEventLoop
    listener: Listener


class MemoryStore:
    """`clock` returns seconds and never goes back. The default is `time.monotonic`.

    `max_bytes` limits the size, approximately. When it is reached, the entries read least are dropped, as in a full
    Redis.
    """

    shared = False

    @takes_options("MemoryStore")
    def __init__(self, *, clock: Callable[[], float] = time.monotonic, max_bytes: int = MOST_BYTES) -> None:
        self.clock = clock
        self._entries = Entries()
        self._room: Bounded[Item] = Bounded(max_bytes=max_bytes, put_out=self._entries.drop)
        self._changed: deque[str] = deque()
        """Entries whose size has not been counted yet."""
        self._subscribers: dict[str, _Subscriber] = {}
        self._switches: dict[tuple[str, str], tuple[Switch, float]] = {}
        self._watchers: dict[str, _Subscriber] = {}
        # Never waited for: a thread that finds the lock taken leaves the counting to its owner. See `stores.entries`.
        self._counting = threading.Lock()
        _STORES.add(self)

    def __len__(self) -> int:
        return len(self._entries)

    def names(self) -> list[str]:
        """The names of all entries at this moment."""
        return list(self._entries)

    def open_session(self, listener: Listener, *, namespace: str = "") -> MemorySession:
        return MemorySession(self, listener)

    def subscribe(self, inbox: str, listener: Listener) -> None:
        self._subscribers[inbox] = _Subscriber(asyncio.get_running_loop(), listener)

    def watch(self, inbox: str) -> bool:
        """Send changes to this inbox's listener. False if the inbox is gone."""
        subscriber = self._subscribers.get(inbox)
        if subscriber is None:
            return False
        self._watchers.setdefault(inbox, subscriber)
        return True

    def tell_watchers(self, name: str, fence: int) -> None:
        for watcher in list(self._watchers.values()):
            with contextlib.suppress(RuntimeError):
                watcher.loop.call_soon_threadsafe(watcher.listener.changed, name, fence)

    def unsubscribe(self, inbox: str) -> None:
        self._subscribers.pop(inbox, None)
        self._watchers.pop(inbox, None)

    def leave_the_parents(self) -> None:
        """After a fork, in the child: the child keeps its own copy of the entries."""
        self._counting = threading.Lock()

    def now_us(self) -> int:
        # Never 0, which means "no token".
        return int(self.clock() * 1_000_000) + 1

    def look(self, name: str) -> Entry:
        entry = prune(self._entries.latest(name), self.now_us())
        if entry.value is not None and (item := self._room.items.get(name)) is not None:
            item.hits += 1
        return entry

    def change(self, name: str, step: Callable[[Entry, int, frozenset[str]], tuple[Entry, T, Messages]]) -> T:
        """Run one atomic step and deliver its messages. `step` is called again if another change came in between."""
        # A loop that was closed without `aclose` receives no messages, so its leases may be taken over.
        subscribers = list(self._subscribers.items())
        listening = frozenset(inbox for inbox, subscriber in subscribers if not subscriber.loop.is_closed())

        def make(entry: Entry) -> tuple[Entry, tuple[T, Messages]]:
            changed, reply, messages = step(entry, self.now_us(), listening)
            return changed, (reply, messages)

        reply, messages = self._entries.change(name, make)
        self._changed.append(name)
        self._count()
        for inbox, message in messages:
            subscriber = self._subscribers.get(inbox)
            if subscriber is not None:
                # RuntimeError: the loop is closed.
                with contextlib.suppress(RuntimeError):
                    subscriber.loop.call_soon_threadsafe(subscriber.listener.heard, name, message)
        return reply

    def switches(self, namespace: str) -> dict[str, Switch]:
        now, found = self.clock(), {}
        for (space, title), (switch, ends) in list(self._switches.items()):
            if ends <= now:
                self._switches.pop((space, title), None)
            elif space == namespace:
                found[title] = replace(switch, left=None if ends == math.inf else ends - now)
        return found

    def switch(self, namespace: str, title: str, switch: Switch | None) -> int:
        others = self.switches(namespace).keys() - {title, WATCH_TITLE}
        if switch is not None and title != WATCH_TITLE and len(others) >= MOST_SWITCHES:
            raise StoreRefused(f"there are {MOST_SWITCHES} switches already")
        if switch is None:
            self._switches.pop((namespace, title), None)
        else:
            ends = math.inf if switch.left is None else self.clock() + switch.left
            self._switches[namespace, title] = (switch, ends)
        told = list(self._subscribers.values())
        for subscriber in told:
            with contextlib.suppress(RuntimeError):
                subscriber.loop.call_soon_threadsafe(
                    subscriber.listener.heard, modes_name(namespace), Message("again", 0)
                )
        return len(told)

    def _count(self) -> None:
        """Count the size of changed entries. Drop entries that have expired or do not fit."""
        while self._changed and self._counting.acquire(blocking=False):
            try:
                while self._changed:
                    self._take_room(self._changed.popleft())
                    self._sweep()
            finally:
                self._counting.release()

    def _take_room(self, name: str) -> None:
        entry = self._entries.latest(name)
        if entry == EMPTY:
            self._room.take(name)
            return
        bodies = sum(len(part.body) for part in (entry.value, entry.failure) if part is not None)
        self._room.put(name, Item(OVERHEAD + len(name) + bodies))

    def _sweep(self) -> None:
        now_us = self.now_us()
        for _ in range(SWEEP):
            name = self._entries.next_in_turn()
            if name is None:
                continue
            entry = self._entries.latest(name)
            if _swept(entry, now_us) != entry:
                self._entries.change(name, lambda entry: (_swept(entry, now_us), None))
                self._take_room(name)


def _swept(entry: Entry, now_us: int) -> Entry:
    """Waiters alone do not keep an entry alive: without a lease there is no holder to wait for."""
    pruned = prune(entry, now_us)
    return pruned if any((pruned.value, pruned.failure, pruned.record, pruned.lease, pruned.slots)) else EMPTY


class MemorySession:
    """See `stores.protocol.Session`."""

    away = False

    def __init__(self, store: MemoryStore, listener: Listener) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._inbox = uuid.uuid4().hex
        store.subscribe(self._inbox, listener)

    def away_for(self, name: str) -> bool:
        return False

    def hears_changes(self, name: str) -> bool:
        return self._store.watch(self._inbox)

    def read(self, name: str) -> asyncio.Future[Reading | None]:
        future: asyncio.Future[Reading | None] = self._loop.create_future()
        future.set_result(scripts.read(self._store.look(name), now_us=self._store.now_us()))
        return future

    async def acquire(self, name: str, *, flight: str, policy: Policy, newer_than: int = 0) -> Answer:
        ask = Ask(
            flight=flight,
            inbox=self._inbox,
            epoch=uuid.uuid4().hex,
            lease_ms=_ms(policy.lease_ttl),
            record_ms=policy.record_ms,
            takeover_ms=_ms(policy.takeover_gap),
            newer_than=newer_than,
            uncacheable_limit=policy.uncacheable_limit,
            uncacheable_ms=policy.slot_ms,
        )

        def step(entry: Entry, now_us: int, listening: frozenset[str]) -> tuple[Entry, Answer, Messages]:
            return *scripts.acquire(entry, ask, now_us=now_us, listening=listening), ()

        return self._store.change(name, step)

    async def renew(self, name: str, *, flight: str, token: int, policy: Policy) -> bool:
        renewal = Renewal(flight, token, self._inbox, _ms(policy.lease_ttl), policy.record_ms)

        def step(entry: Entry, now_us: int, listening: frozenset[str]) -> tuple[Entry, bool, Messages]:
            return *scripts.renew(entry, renewal, now_us=now_us, listening=listening), ()

        return self._store.change(name, step)

    async def publish(
        self,
        name: str,
        *,
        flight: str,
        grant: Granted,
        outcome: Outcome,
        body: bytes,
        policy: Policy,
        took_ms: int = 0,
        trace: str = "",
    ) -> bool:
        others = {"failure": policy.error_ttl, "pass": policy.uncacheable_ttl}
        publication = Publication(
            flight=flight,
            token=grant.token,
            epoch=grant.epoch,
            outcome=outcome,
            body=b"" if outcome == "pass" else body,
            total_ms=_ms(others[outcome]) if outcome in others else policy.total_ms,
            stale_ms=0 if outcome in others else policy.stale_ms,
            record_ms=policy.record_ms,
            inline_bytes=policy.max_value_bytes,
            took_ms=took_ms,
            let_through=not grant.leased,
            trace=trace,
        )

        outdates = False

        def step(entry: Entry, now_us: int, _: frozenset[str]) -> tuple[Entry, bool, Messages]:
            nonlocal outdates
            after, stored, messages = scripts.publish(entry, publication, now_us=now_us)
            outdates = stored and scripts.replaces_fresh(entry, publication, now_us=now_us)
            return after, stored, messages

        stored = self._store.change(name, step)
        if outdates:
            self._store.tell_watchers(name, grant.token)
        return stored

    async def invalidate(self, name: str, *, policy: Policy) -> int:
        epoch = uuid.uuid4().hex

        def step(entry: Entry, now_us: int, _: frozenset[str]) -> tuple[Entry, int, Messages]:
            return scripts.invalidate(entry, now_us=now_us, epoch=epoch, record_ms=policy.record_ms)

        fence = self._store.change(name, step)
        self._store.tell_watchers(name, fence)
        return fence

    async def fence(self, name: str) -> tuple[str, int] | None:
        record = self._store.look(name).record
        return None if record is None else (record.epoch, record.fence)

    async def release(self, name: str, *, flight: str) -> bool:
        def step(entry: Entry, now_us: int, _: frozenset[str]) -> tuple[Entry, bool, Messages]:
            return scripts.release(entry, flight, now_us=now_us)

        return self._store.change(name, step)

    async def admits(self, name: str, grant: Granted) -> bool:
        record = self._store.look(name).record
        return record is not None and record.admits(grant.epoch, grant.token)

    async def stamp(self, name: str, *, policy: Policy) -> Granted:
        epoch, record_ms = uuid.uuid4().hex, policy.record_ms

        def step(entry: Entry, now_us: int, _: frozenset[str]) -> tuple[Entry, Granted, Messages]:
            return *scripts.stamp(entry, epoch=epoch, now_us=now_us, record_ms=record_ms), ()

        return self._store.change(name, step)

    async def fallback(
        self, name: str, *, flight: str, policy: Policy, newer_than: int = 0
    ) -> Found | Granted | Denied:
        slot_ms = _ms(policy.fallback_timeout + policy.lease_ttl)
        epoch, limit = uuid.uuid4().hex, policy.fallback_limit
        ask = FallbackAsk(flight, epoch, limit, slot_ms, policy.record_ms, newer_than)

        def step(
            entry: Entry, now_us: int, _: frozenset[str]
        ) -> tuple[Entry, Found | Granted | Denied, Messages]:
            return *scripts.fallback(entry, ask, now_us=now_us), ()

        return self._store.change(name, step)

    def read_tag(self, name: str) -> asyncio.Future[Reading | None]:
        return self.read(name)

    async def ensure_tag(self, name: str, *, policy: Policy) -> bytes:
        version = uuid.uuid4().bytes

        def step(entry: Entry, now_us: int, _: frozenset[str]) -> tuple[Entry, bytes, Messages]:
            return *tags.ensure(entry, version, now_us=now_us, ms=policy.tag_ms), ()

        return self._store.change(name, step)

    async def drop_tag(self, name: str) -> None:
        self._store.change(name, lambda entry, now_us, _: (tags.drop(entry), None, ()))
        self._store.tell_watchers(name, self._store.now_us())

    async def switches(self, namespace: str) -> Mapping[str, Switch]:
        return self._store.switches(namespace)

    async def switch(self, namespace: str, title: str, switch: Switch | None) -> int:
        return self._store.switch(namespace, title, switch)

    async def count(self, namespace: str, series: Series, slot: int, numbers: Mapping[str, int]) -> int:
        return slot

    async def tell(
        self, namespace: str, happenings: Sequence[tuple[int, str]], *, stream: StreamName = HAPPENED
    ) -> None:
        """Nobody could read it."""

    def forget(self, name: str, *, flight: str) -> None:
        self._store.change(name, lambda entry, now_us, _: scripts.release(entry, flight, now_us=now_us))

    async def aclose(self) -> None:
        self._store.unsubscribe(self._inbox)

    def abandon(self) -> None:
        self._store.unsubscribe(self._inbox)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


@in_children
def _after_fork() -> None:
    for store in list(_STORES):
        store.leave_the_parents()
