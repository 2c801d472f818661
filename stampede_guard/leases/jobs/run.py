"""A run as the job's function sees it."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from stampede_guard.errors import LeaseLost, Misuse
from stampede_guard.leases.jobs.schedule import moment
from stampede_guard.leases.lease import Lease
from stampede_guard.leases.runs.words import Ending
from stampede_guard.leases.signal import Signal

__all__ = ["MOST_COUNTERS", "Run", "current_run", "given"]

MOST_COUNTERS = 64


_CURRENT: ContextVar[Run | None] = ContextVar("stampede_guard_run", default=None)


def current_run() -> Run | None:
    """That of the job whose function runs now, in its coroutine or its thread: for functions that are given none."""
    return _CURRENT.get()


@contextlib.contextmanager
def given(run: Run) -> Iterator[None]:
    """What is called in here finds it by `current_run()`."""
    before = _CURRENT.set(run)
    try:
        yield
    finally:
        _CURRENT.reset(before)


class Run:
    """One slot of one job, now."""

    def __init__(
        self,
        *,
        job: str,
        slot: int,
        run: str,
        attempt: int,
        last_success_at: datetime | None,
        lease: Lease,
        runs: Any,
        patience: float,
    ) -> None:
        self._lease = lease
        self._runs = runs
        self._slot = slot
        self.job = job
        self.id = run
        self.attempt = attempt
        self.last_success_at = last_success_at
        """When a run of the job last completed, on the back end's clock: what is newer is still to be done."""
        self.counters: dict[str, int | float] = {}
        self.completed = False
        self.goes_on = False
        """A function in a thread was told to stop, and did not."""
        self.patience = patience
        """Seconds that a function in a thread has to end once `stopping` is raised."""
        self._stopping = Signal()
        lease.stopping.then(lambda: self.stop(lease.stopping.why))

    @property
    def slot(self) -> datetime:
        """The scheduled time, in UTC: what this run is for, however late it is."""
        return moment(self._slot)

    @property
    def token(self) -> int:
        """Of the lease: greater than that of every run before. Let what you write to refuse smaller ones."""
        return self._lease.token

    @property
    def key(self) -> str:
        """The same for each attempt at this slot: an idempotency key for effects outside the database."""
        return f"{self.job}@{moment(self._slot).isoformat()}"

    @property
    def lease(self) -> Lease:
        return self._lease

    @property
    def stopping(self) -> Signal:
        """Raised when the run is to end, for its lease, its time limit or its worker: a plain function looks at it; a
        coroutine is cancelled then."""
        return self._stopping

    def stop(self, why: str) -> None:
        """Raises `stopping`. In the event loop."""
        self._stopping.raise_it(why)

    def report(self, **counters: int | float) -> None:
        """Counted for the history: the last value of each name stays. Raises `Misuse` for what is no number."""
        for name, value in counters.items():
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise Misuse(f"run.report({name}={value!r}): write a number")
            if not math.isfinite(value):
                # No JSON: the end of the run could not be written down.
                raise Misuse(f"run.report({name}={value!r}): write a number")
        if len(self.counters.keys() | counters.keys()) > MOST_COUNTERS:
            raise Misuse(f"a run has at most {MOST_COUNTERS} counters")
        self.counters.update(counters)

    @contextlib.asynccontextmanager
    async def completing(self, conn: Any) -> AsyncIterator[Any]:
        """A transaction of your own PostgreSQL connection that ends this run: exactly-once effects in the database.

        The slot is completed in the same transaction as what you write in it, so either both are there or neither is,
        and no second attempt can do it again. Raises `LeaseLost` where the run is not ours any more, and nothing was
        written; `Misuse` where runs are not kept in PostgreSQL.
        """
        finish = getattr(self._runs, "finish_in", None)
        if finish is None:
            raise Misuse("run.completing(conn) needs the runs in the same database: use PostgresLeases")
        ending = Ending(outcome="completed", token=self.token, counters=self.counters)
        async with self._lease.fenced(conn):
            yield conn
            if not await finish(conn, self.job, slot=self._slot, run=self.id, ending=ending):
                raise LeaseLost(self.job, token=self.token, why="its slot is another run's by now")
        self.completed = True
