"""Slots and runs in this process: for tests, and for a program with a single worker."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any, Concatenate, ParamSpec, TypeVar

from stampede_guard.jobs import rules
from stampede_guard.jobs.backends.one_by_one import looked
from stampede_guard.jobs.messages import (
    Claim,
    ClaimAnswer,
    Ending,
    JobPoll,
    JobView,
    Outcome,
    PollAnswer,
    Registration,
    RunView,
)
from stampede_guard.leases.memory import LeaseRows
from stampede_guard.values.forks import renew_in_children

__all__ = ["MemoryRuns", "runs_beside"]

TRIM_EACH = 100
"""The oldest runs are deleted when there are this many above `MOST_RUNS`."""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(slots=True)
class _JobState:
    row: rules.JobRow
    runs: dict[int, rules.RunRow] = field(default_factory=dict)

    def running(self) -> tuple[int, ...]:
        return tuple(sorted(slot for slot, run in self.runs.items() if run.outcome == "running"))


def _alone(
    step: Callable[Concatenate[MemoryRuns, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[MemoryRuns, P], Coroutine[Any, Any, R]]:
    """One step at a time: the event loops of a process are in different threads. No step waits inside the lock."""

    @functools.wraps(step)
    async def alone(runs: MemoryRuns, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with runs.lock:
            return await step(runs, *args, **kwargs)

    return alone


class MemoryRuns:
    """A `RunBackend` that uses the pure rules. `clock`: seconds since 1970."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self.lock = threading.RLock()
        renew_in_children(self, "lock", threading.RLock)
        self._clock = clock
        self._jobs: dict[str, _JobState] = {}

    @_alone
    async def register(self, registration: Registration, *, timeout: float = 0.0) -> JobView:
        now = self._clock()
        known = self._jobs.get(registration.job)
        row = rules.register(known.row if known else None, registration, now=now)
        if known is None:
            known = self._jobs[registration.job] = _JobState(row)
        known.row = row
        return rules.job_view(registration.job, row, running=known.running(), now=now)

    @_alone
    async def follow(self, registration: Registration, *, timeout: float = 0.0) -> JobView | None:
        now = self._clock()
        known = self._jobs.get(registration.job)
        if known is None:
            return None
        known.row = rules.follow(known.row, registration, now=now)
        return rules.job_view(registration.job, known.row, running=known.running(), now=now)

    async def register_all(
        self, registrations: Sequence[Registration], *, timeout: float = 0.0
    ) -> list[JobView]:
        return [await self.register(registration) for registration in registrations]

    async def look(self, looks: Sequence[JobPoll], *, again: int, timeout: float = 0.0) -> list[PollAnswer]:
        return [await looked(self, look, again=again, timeout=timeout) for look in looks]

    @_alone
    async def take_over(self, registration: Registration, *, timeout: float = 0.0) -> bool:
        known = self._jobs.get(registration.job)
        if known is None:
            return False
        after = rules.take_over(known.row, registration, now=self._clock())
        known.row = after or known.row
        return after is not None

    @_alone
    async def claim(self, claim: Claim, *, timeout: float = 0.0) -> ClaimAnswer:
        known = self._jobs.get(claim.job)
        if known is None:
            return rules.claim(None, None, claim, now=self._clock())[2]
        job, run, answer = rules.claim(known.row, known.runs.get(claim.slot), claim, now=self._clock())
        self._keep(known, job, run)
        return answer

    @_alone
    async def pause(self, job: str, *, by: str, timeout: float = 0.0) -> JobView | None:
        return self._changed(job, lambda row, now: rules.pause(row, by=by, now=now))

    @_alone
    async def resume(self, job: str, *, timeout: float = 0.0) -> JobView | None:
        return self._changed(job, lambda row, now: rules.resume(row, now=now))

    @_alone
    async def beat(
        self, job: str, *, slot: int, run: str, alive_for: float, token: int, timeout: float = 0.0
    ) -> bool:
        known = self._jobs.get(job)
        row = known.runs.get(slot) if known else None
        after = rules.beat(row, mine=run, alive_for=alive_for, token=token, now=self._clock())
        if known is None or after is None:
            return False
        known.runs[slot] = after
        return True

    @_alone
    async def finish(self, job: str, *, slot: int, run: str, ending: Ending, timeout: float = 0.0) -> bool:
        known = self._jobs.get(job)
        if known is None:
            return False
        after = rules.finish(known.row, known.runs.get(slot), mine=run, ending=ending, now=self._clock())
        if after is None:
            return False
        self._keep(known, *after)
        return True

    @_alone
    async def record(
        self, job: str, *, slots: Sequence[int], outcome: Outcome, error: str, timeout: float = 0.0
    ) -> int:
        known = self._jobs.get(job)
        recorded = 0
        for slot in slots if known is not None else ():
            assert known is not None
            after = rules.record(
                known.row,
                known.runs.get(slot),
                slot=slot,
                outcome=outcome,
                error=error,
                now=self._clock(),
            )
            if after is not None:
                self._keep(known, *after)
                recorded += 1
        return recorded

    @_alone
    async def sweep(self, job: str, *, timeout: float = 0.0) -> list[RunView]:
        known = self._jobs.get(job)
        marked = []
        for run in list(known.runs.values()) if known is not None else ():
            assert known is not None
            row, after = rules.lapsed(known.row, run, now=self._clock())
            if after is not run:
                self._keep(known, row, after)
                marked.append(rules.run_view(job, after))
        return marked

    @_alone
    async def retriable(self, job: str, *, attempts: int, limit: int, timeout: float = 0.0) -> list[RunView]:
        known = self._jobs.get(job)
        wanted = [
            run
            for _, run in sorted(known.runs.items() if known else ())
            if rules.retriable(run, attempts=attempts)
        ]
        return [rules.run_view(job, run) for run in wanted[:limit]]

    @_alone
    async def view(self, job: str, *, timeout: float = 0.0) -> JobView | None:
        known = self._jobs.get(job)
        if known is None:
            return None
        return rules.job_view(job, known.row, running=known.running(), now=self._clock())

    @_alone
    async def views(self, prefix: str, *, limit: int, timeout: float = 0.0) -> list[JobView]:
        names = sorted(name for name in self._jobs if name.startswith(prefix))[:limit]
        return [view for name in names if (view := await self.view(name)) is not None]

    @_alone
    async def history(
        self,
        job: str,
        *,
        limit: int,
        before: int | None = None,
        outcomes: Sequence[Outcome] = (),
        timeout: float = 0.0,
    ) -> list[RunView]:
        known = self._jobs.get(job)
        wanted = [
            rules.run_view(job, run)
            for slot, run in sorted(known.runs.items() if known else (), reverse=True)
            if (before is None or slot < before) and (not outcomes or run.outcome in outcomes)
        ]
        return wanted[:limit]

    @_alone
    async def prune(
        self,
        job: str,
        *,
        keep: int,
        older_than: float,
        most: int = rules.MOST_RUNS,
        timeout: float = 0.0,
    ) -> int:
        known = self._jobs.get(job)
        if known is None:
            return 0
        ended = [slot for slot, run in known.runs.items() if run.outcome != "running"]
        oldest = (self._clock() - older_than) * 1000
        gone = rules.to_prune(ended, keep=keep, most=most, before=oldest)
        for slot in gone:
            del known.runs[slot]
        known.row = rules.pruned(known.row, gone)
        return len(gone)

    @_alone
    async def forget(self, job: str, *, timeout: float = 0.0) -> bool:
        return self._jobs.pop(job, None) is not None

    async def aclose(self) -> None:
        """There is nothing to close."""

    def _changed(self, job: str, change: Callable[[rules.JobRow, float], rules.JobRow]) -> JobView | None:
        known, now = self._jobs.get(job), self._clock()
        if known is None:
            return None
        known.row = change(known.row, now)
        return rules.job_view(job, known.row, running=known.running(), now=now)

    @staticmethod
    def _keep(known: _JobState, job: rules.JobRow | None, run: rules.RunRow | None) -> None:
        if job is not None:
            known.row = job
        if run is not None:
            known.runs[run.slot] = run
            if len(known.runs) > rules.MOST_RUNS + TRIM_EACH:
                ended = [slot for slot, row in known.runs.items() if row.outcome != "running"]
                gone = rules.to_prune(ended, keep=rules.MOST_RUNS, most=rules.MOST_RUNS, before=0.0)
                for slot in gone:
                    del known.runs[slot]
                known.row = rules.pruned(known.row, gone)


def runs_beside(rows: LeaseRows) -> MemoryRuns:
    """Those of all who share these rows."""
    runs: MemoryRuns = rows.beside.setdefault(MemoryRuns, MemoryRuns(clock=rows.clock))
    return runs
