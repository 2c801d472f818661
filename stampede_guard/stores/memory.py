"""A store inside this process: the pure scripts on a dictionary. Other processes are not covered.

All event loops and threads of the process share the entries. Entries whose time is over are removed when they are next
touched, and by a sweep over a few others at every write, so that keys used once do not pile up.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import threading
import time
import uuid
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from stampede_guard.core import scripts
from stampede_guard.core.entry import EMPTY, Entry, Reading, prune
from stampede_guard.core.scripts import (
    Answer,
    Ask,
    Denied,
    FallbackAsk,
    Found,
    Granted,
    Messages,
    Outcome,
    Publication,
    Renewal,
)
from stampede_guard.policy import Policy
from stampede_guard.stores.protocol import Listener

__all__ = ["MemorySession", "MemoryStore"]

T = TypeVar("T")

_STORES: weakref.WeakSet[MemoryStore] = weakref.WeakSet()

SWEEP = 4
"""Other entries looked at per write."""


@dataclass(frozen=True, slots=True)
class _Subscriber:
    loop: asyncio.AbstractEventLoop
    listener: Listener


class MemoryStore:
    """`clock` returns seconds and never goes back; the default is `time.monotonic`."""

    shared = False

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._entries: dict[str, Entry] = {}
        self._subscribers: dict[str, _Subscriber] = {}
        self._lock = threading.Lock()
        _STORES.add(self)

    def __len__(self) -> int:
        return len(self._entries)

    def open_session(self, listener: Listener) -> MemorySession:
        return MemorySession(self, listener)

    def subscribe(self, inbox: str, listener: Listener) -> None:
        with self._lock:
            self._subscribers[inbox] = _Subscriber(asyncio.get_running_loop(), listener)

    def unsubscribe(self, inbox: str) -> None:
        with self._lock:
            self._subscribers.pop(inbox, None)

    def abandon(self, inbox: str) -> None:
        # Without the lock: after a fork it may be held for ever, by a thread that is not there.
        self._subscribers.pop(inbox, None)

    def leave_the_parents(self) -> None:
        """After a fork, in the child: the entries stay, as a copy of its own."""
        self._lock = threading.Lock()

    def now_us(self) -> int:
        # Never 0, which is "no token".
        return int(self.clock() * 1_000_000) + 1

    def look(self, name: str) -> Entry:
        with self._lock:
            return prune(self._entries.get(name, EMPTY), self.now_us())

    def change(self, name: str, step: Callable[[Entry, int, frozenset[str]], tuple[Entry, T, Messages]]) -> T:
        """Run one atomic step and deliver its messages."""
        with self._lock:
            now_us = self.now_us()
            # A loop that was closed without a word hears nothing any more: its leases may be taken over.
            listening = frozenset(
                inbox
                for inbox, subscriber in list(self._subscribers.items())
                if not subscriber.loop.is_closed()
            )
            entry, reply, messages = step(self._entries.get(name, EMPTY), now_us, listening)
            self._keep(name, entry)
            self._sweep(now_us)
            heard = [(self._subscribers.get(inbox), message) for inbox, message in messages]
        for subscriber, message in heard:
            if subscriber is not None:
                # RuntimeError: the loop has been closed.
                with contextlib.suppress(RuntimeError):
                    subscriber.loop.call_soon_threadsafe(subscriber.listener.heard, name, message)
        return reply

    def _keep(self, name: str, entry: Entry) -> None:
        self._entries.pop(name, None)
        if entry != EMPTY:
            self._entries[name] = entry

    def _sweep(self, now_us: int) -> None:
        for name in list(itertools.islice(self._entries, SWEEP)):
            entry = self._entries[name]
            pruned = prune(entry, now_us)
            # Waiters alone keep nothing alive: without a lease there is nobody to wait for.
            if not any((pruned.value, pruned.failure, pruned.record, pruned.lease, pruned.slots)):
                self._keep(name, EMPTY)
            else:
                self._keep(name, pruned)


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
            pass_limit=policy.pass_limit,
            pass_ms=policy.slot_ms,
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
        self, name: str, *, flight: str, grant: Granted, outcome: Outcome, body: bytes, policy: Policy
    ) -> bool:
        others = {"failure": policy.error_ttl, "pass": policy.pass_ttl}
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
            let_through=not grant.leased,
        )

        def step(entry: Entry, now_us: int, _: frozenset[str]) -> tuple[Entry, bool, Messages]:
            return scripts.publish(entry, publication, now_us=now_us)

        return self._store.change(name, step)

    async def invalidate(self, name: str, *, policy: Policy) -> int:
        epoch = uuid.uuid4().hex

        def step(entry: Entry, now_us: int, _: frozenset[str]) -> tuple[Entry, int, Messages]:
            return scripts.invalidate(entry, now_us=now_us, epoch=epoch, record_ms=policy.record_ms)

        return self._store.change(name, step)

    async def release(self, name: str, *, flight: str) -> bool:
        def step(entry: Entry, now_us: int, _: frozenset[str]) -> tuple[Entry, bool, Messages]:
            return scripts.release(entry, flight, now_us=now_us)

        return self._store.change(name, step)

    async def fallback(self, name: str, *, flight: str, policy: Policy) -> Found | Granted | Denied:
        slot_ms = _ms(policy.fallback_timeout + policy.lease_ttl)
        ask = FallbackAsk(flight, uuid.uuid4().hex, policy.fallback_limit, slot_ms, policy.record_ms)

        def step(
            entry: Entry, now_us: int, _: frozenset[str]
        ) -> tuple[Entry, Found | Granted | Denied, Messages]:
            return *scripts.fallback(entry, ask, now_us=now_us), ()

        return self._store.change(name, step)

    def forget(self, name: str, *, flight: str) -> None:
        """Every command here is answered at once."""

    async def aclose(self) -> None:
        self._store.unsubscribe(self._inbox)

    def abandon(self) -> None:
        self._store.abandon(self._inbox)


def _ms(seconds: float) -> int:
    return round(seconds * 1000)


def _after_fork() -> None:
    for store in list(_STORES):
        store.leave_the_parents()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
