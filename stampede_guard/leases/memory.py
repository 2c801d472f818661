"""Leases in this process's memory, on the rules of `core.grants`: for tests, and for one process alone."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from stampede_guard.leases.core import grants
from stampede_guard.leases.core.grants import EMPTY, Row
from stampede_guard.leases.runs.memory import MemoryRuns
from stampede_guard.leases.words import Answer, Ask, Audit, Forced, LeaseView, NotForced, Refused, Renewed

__all__ = ["MemoryBackend", "Rows"]

MOST_AUDITS = 1_000
ROWS_BEFORE_PRUNING = 1_024


class Rows:
    """What several `MemoryBackend`s share, each for one owner or event loop. `clock` gives seconds since 1970."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.audits: deque[Audit] = deque(maxlen=MOST_AUDITS)
        self.freed: list[Callable[[str], None]] = []
        self.runs = MemoryRuns(clock=clock)
        self._rows: dict[str, Row] = {}
        self._forgotten = 0
        self._prune_at = ROWS_BEFORE_PRUNING

    def row(self, name: str) -> Row:
        # The tokens of a name that was forgotten go on behind those of all that were.
        return self._rows.get(name) or (Row(last=self._forgotten) if self._forgotten else EMPTY)

    def put(self, name: str, row: Row) -> None:
        if name not in self._rows and len(self._rows) >= self._prune_at:
            self._prune()
        self._rows[name] = row

    def names(self) -> list[str]:
        return sorted(self._rows)

    def tell_freed(self, name: str) -> None:
        for call in tuple(self.freed):
            call(name)

    def _prune(self) -> None:
        """So that names with parameters in them do not pile up."""
        now = self.clock()
        for name in [name for name, row in self._rows.items() if grants.idle(row, now)]:
            self._forgotten = max(self._forgotten, self._rows.pop(name).last)
        self._prune_at = max(ROWS_BEFORE_PRUNING, 2 * len(self._rows))


class MemoryBackend:
    """A `Backend`. It answers at once and is never away, so `timeout` means nothing here."""

    def __init__(self, rows: Rows | None = None) -> None:
        self.rows = Rows() if rows is None else rows
        self._calls: list[Callable[[str], None]] = []

    async def acquire(self, ask: Ask, *, timeout: float) -> Answer:
        row, answer = grants.ask(self.rows.row(ask.name), ask, self.rows.clock())
        self.rows.put(ask.name, row)
        return answer

    async def renew(
        self, name: str, *, holder: str, token: int, lease_ttl: float, timeout: float
    ) -> Renewed | Refused:
        row, answer = grants.renew(
            self.rows.row(name), holder=holder, token=token, lease_ttl=lease_ttl, now=self.rows.clock()
        )
        self.rows.put(name, row)
        return answer

    async def release(
        self, name: str, *, holder: str, token: int, at_least_for: float, to: str = "", timeout: float
    ) -> bool:
        before = self.rows.row(name)
        row, held = grants.release(
            before, holder=holder, token=token, at_least_for=at_least_for, to=to, now=self.rows.clock()
        )
        self.rows.put(name, row)
        if held or len(row.queue) < len(before.queue):
            self.rows.tell_freed(name)
        return held

    async def leave(self, name: str, *, holder: str, timeout: float) -> None:
        await self.release(name, holder=holder, token=0, at_least_for=0.0, timeout=timeout)

    async def check(self, name: str, *, holder: str, token: int, timeout: float) -> bool:
        return grants.check(self.rows.row(name), holder=holder, token=token, now=self.rows.clock())

    async def force(self, name: str, *, token: int, by: str, now: bool, timeout: float) -> Forced | NotForced:
        row, answer, audit = grants.force(
            self.rows.row(name), name=name, token=token, by=by, at_once=now, now=self.rows.clock()
        )
        self.rows.put(name, row)
        if audit is not None:
            self.rows.audits.appendleft(audit)
            if now:
                self.rows.tell_freed(name)
        return answer

    async def show(self, name: str, *, timeout: float) -> LeaseView | None:
        row = self.rows.row(name)
        return grants.view(name, row, self.rows.clock()) if row.token else None

    async def views(self, prefix: str, *, limit: int, timeout: float) -> list[LeaseView]:
        now = self.rows.clock()
        names = [name for name in self.rows.names() if name.startswith(prefix) and self.rows.row(name).token]
        return [grants.view(name, self.rows.row(name), now) for name in names[:limit]]

    async def audits(self, prefix: str, *, limit: int, timeout: float) -> list[Audit]:
        return [audit for audit in self.rows.audits if audit.name.startswith(prefix)][:limit]

    def on_freed(self, call: Callable[[str], None]) -> None:
        self._calls.append(call)
        self.rows.freed.append(call)

    def runs(self) -> MemoryRuns:
        """The slots and runs of jobs, shared like the rows."""
        return self.rows.runs

    async def aclose(self) -> None:
        for call in self._calls:
            self.rows.freed.remove(call)
        self._calls.clear()
