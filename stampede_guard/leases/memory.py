"""Leases in this process's memory, by the rules of `core.grants`: for tests and for single-process programs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

from stampede_guard.leases.core import grants
from stampede_guard.leases.core.grants import EMPTY, LeaseRow
from stampede_guard.leases.core.queue import newly_called
from stampede_guard.leases.messages import (
    Answer,
    Audit,
    Forced,
    LeaseRefused,
    LeaseRequest,
    LeaseView,
    NotForced,
    Renewed,
)
from stampede_guard.values.forks import renew_in_children

__all__ = ["LeaseRows", "MemoryBackend"]

MOST_AUDITS = 1_000
ROWS_BEFORE_PRUNING = 1_024


class LeaseRows:
    """The rows that several `MemoryBackend`s share, one per owner or event loop. `clock` returns seconds since 1970.

    A step runs within `step(name)`, under a lock: plain code and coroutines of a process run in different threads.
    """

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.audits: deque[Audit] = deque(maxlen=MOST_AUDITS)
        self.freed: list[_Listener] = []
        self.waiting: list[_Listener] = []
        self.beside: dict[type[Any], Any] = {}
        """What others keep for as long as the rows: the runs of jobs."""
        self._rows: dict[str, LeaseRow] = {}
        self._forgotten = 0
        self._prune_at = ROWS_BEFORE_PRUNING
        self._lock = threading.Lock()
        renew_in_children(self, "_lock")

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[tuple[LeaseRow, float]]:
        """The row and the time, while no other step runs."""
        with self._lock:
            yield self.row(name), self.clock()

    def row(self, name: str) -> LeaseRow:
        # A forgotten name continues with larger tokens than every forgotten name had.
        return self._rows.get(name) or (LeaseRow(last=self._forgotten) if self._forgotten else EMPTY)

    def put(self, name: str, row: LeaseRow) -> None:
        if name not in self._rows and len(self._rows) >= self._prune_at:
            self._prune()
        self._rows[name] = row

    def names(self) -> list[str]:
        return sorted(self._rows)

    def tell_freed(self, name: str) -> None:
        for listener in tuple(self.freed):
            listener.tell(name)

    def tell_called(self, before: LeaseRow, after: LeaseRow) -> None:
        """Notify the waiters that this step has called."""
        for ahead, holder in enumerate(newly_called(before.queue, after.queue)):
            for listener in tuple(self.waiting):
                listener.tell(holder, ahead)

    def _prune(self) -> None:
        """Delete unused rows. Otherwise names that contain parameters would accumulate."""
        now = self.clock()
        for name in [name for name, row in self._rows.items() if grants.idle(row, now)]:
            self._forgotten = max(self._forgotten, self._rows.pop(name).last)
        self._prune_at = max(ROWS_BEFORE_PRUNING, 2 * len(self._rows))


class _Listener:
    """Calls a function in the event loop that registered it."""

    def __init__(self, call: Callable[..., None]) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()

    def tell(self, *what: Any) -> None:
        if asyncio._get_running_loop() is self._loop:
            self._call(*what)
        else:
            # The loop may be closed by now. Then no waiter is left in it.
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self._call, *what)


class MemoryBackend:
    """A `Backend`. It answers at once and is never away, so `timeout` has no effect here."""

    kind = "memory"

    hears = True

    def __init__(self, rows: LeaseRows | None = None) -> None:
        self.rows = LeaseRows() if rows is None else rows
        self._listeners: list[_Listener] = []
        self._waiting: list[_Listener] = []

    async def acquire(self, ask: LeaseRequest, *, timeout: float) -> Answer:
        with self.rows.step(ask.name) as (before, now):
            row, answer = grants.ask(before, ask, now)
            self.rows.put(ask.name, row)
        self.rows.tell_called(before, row)
        return answer

    async def renew(
        self, name: str, *, holder: str, token: int, lease_ttl: float, timeout: float
    ) -> Renewed | LeaseRefused:
        with self.rows.step(name) as (row, now):
            row, answer = grants.renew(row, holder=holder, token=token, lease_ttl=lease_ttl, now=now)
            self.rows.put(name, row)
        return answer

    async def release(
        self, name: str, *, holder: str, token: int, at_least_for: float, to: str = "", timeout: float
    ) -> bool:
        with self.rows.step(name) as (before, now):
            row, held = grants.release(
                before, holder=holder, token=token, at_least_for=at_least_for, to=to, now=now
            )
            self.rows.put(name, row)
        if held or len(row.queue) < len(before.queue):
            self.rows.tell_freed(name)
        self.rows.tell_called(before, row)
        return held

    async def leave(self, name: str, *, holder: str, timeout: float) -> None:
        await self.release(name, holder=holder, token=0, at_least_for=0.0, timeout=timeout)

    async def check(self, name: str, *, holder: str, token: int, timeout: float) -> bool:
        with self.rows.step(name) as (row, now):
            return grants.check(row, holder=holder, token=token, now=now)

    async def force(
        self, name: str, *, token: int, by: str, now: bool, audited: bool = True, timeout: float
    ) -> Forced | NotForced:
        with self.rows.step(name) as (before, at):
            row, answer, audit = grants.force(before, name=name, token=token, by=by, at_once=now, now=at)
            self.rows.put(name, row)
        self.rows.tell_called(before, row)
        if audit is not None:
            if audited:
                self.rows.audits.appendleft(audit)
            self.rows.tell_freed(name)
        return answer

    async def show(self, name: str, *, timeout: float) -> LeaseView | None:
        with self.rows.step(name) as (row, now):
            return grants.view(name, row, now) if row.token else None

    async def views(self, prefix: str, *, limit: int, timeout: float) -> list[LeaseView]:
        with self.rows.step("") as (_, now):
            rows = [(name, self.rows.row(name)) for name in self.rows.names() if name.startswith(prefix)]
        return [grants.view(name, row, now) for name, row in rows if row.token][:limit]

    async def audits(self, prefix: str, *, limit: int, timeout: float) -> list[Audit]:
        return [audit for audit in self.rows.audits if audit.name.startswith(prefix)][:limit]

    def on_freed(self, call: Callable[[str], None]) -> None:
        listener = _Listener(call)
        self._listeners.append(listener)
        self.rows.freed.append(listener)

    def on_called(self, call: Callable[[str, int], None]) -> None:
        listener = _Listener(call)
        self._waiting.append(listener)
        self.rows.waiting.append(listener)

    async def aclose(self) -> None:
        for listener in self._listeners:
            self.rows.freed.remove(listener)
        for listener in self._waiting:
            self.rows.waiting.remove(listener)
        self._listeners.clear()
        self._waiting.clear()
