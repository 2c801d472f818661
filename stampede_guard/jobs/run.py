"""The run object that the job's function gets."""

from __future__ import annotations

import contextlib
import math
from collections.abc import AsyncIterator, Iterator
from contextvars import ContextVar
from datetime import datetime
from typing import Any

from stampede_guard.errors import LeaseLost, Misuse
from stampede_guard.jobs.messages import Ending
from stampede_guard.jobs.schedules.schedule import moment
from stampede_guard.leases import checks
from stampede_guard.leases.keeping.signal import Signal
from stampede_guard.leases.lease import Lease
from stampede_guard.options import ALL, takes_options

__all__ = ["MOST_COUNTERS", "Run", "current_run", "given"]

MOST_COUNTERS = 64
LONGEST_COUNTER = 200


_CURRENT: ContextVar[Run | None] = ContextVar("stampede_guard_run", default=None)


def current_run() -> Run | None:
    """The run whose function is executing now, in its coroutine or thread. For code that gets no `Run` as argument."""
    return _CURRENT.get()


@contextlib.contextmanager
def given(run: Run) -> Iterator[None]:
    """Code that is called in this block finds the run by `current_run()`."""
    before = _CURRENT.set(run)
    try:
        yield
    finally:
        _CURRENT.reset(before)


class Run:
    """One attempt at one slot of a job."""

    def __init__(
        self,
        *,
        job: str,
        slot: int,
        run: str,
        attempt: int,
        last_success_at: datetime | None,
        since: datetime | None,
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
        """When a run of the job last completed, on the back end's clock; None = never."""
        self.since = since
        """When the latest completed run began, on the back end's clock; None = never.

        Process every change since then. Some changes happened during that run, which may have seen them or not."""
        self.counters: dict[str, int | float] = {}
        self.completed = False
        self.goes_on = False
        """True if a function in a thread was asked to stop, and did not."""
        self.patience = patience
        """Seconds that a function in a thread has to end after `stopping` is raised."""
        self._stopping = Signal()
        lease.stopping.then(lambda: self.stop(lease.stopping.why))

    @property
    def slot(self) -> datetime:
        """The scheduled time of this run, in UTC, however late the run is."""
        return moment(self._slot)

    @property
    def token(self) -> int:
        """The fencing token of the lease, greater than the token of every earlier run.

        The system that receives your writes should refuse smaller tokens.
        """
        return self._lease.token

    @property
    def key(self) -> str:
        """An idempotency key for effects outside the database. It is the same for each attempt at this slot."""
        return f"{self.job}@{moment(self._slot).isoformat()}"

    @property
    def lease(self) -> Lease:
        return self._lease

    @property
    def stopping(self) -> Signal:
        """Raised when the run must end because of its lease, its time limit or its worker.

        A plain function must check it. A coroutine is cancelled instead.
        """
        return self._stopping

    @takes_options("run.stop", own=ALL)
    def stop(self, why: str) -> None:
        """Raise `stopping`. Call it in the event loop."""
        self._stopping.raise_it(why)

    def report(self, **counters: int | float) -> None:
        """Put counters into the history. The last value of each name stays.

        Raises `Misuse` for other than numbers, and for a name with NUL, half a surrogate pair or over 200 characters.
        """
        for name, value in counters.items():
            # With such a name or value, no back end could store the outcome of the run.
            if len(name) > LONGEST_COUNTER or name != checks.storable(name):
                raise Misuse(
                    f"run.report(**{{{name[:LONGEST_COUNTER]!r}: ...}}): write a name of at most {LONGEST_COUNTER} "
                    "characters, without NUL and without halves of surrogate pairs"
                )
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise Misuse(f"run.report({name}={value!r}): write a number")
            try:
                stored = math.isfinite(value)
            except OverflowError:
                # Its digits may be more than Python writes.
                raise Misuse(f"run.report({name}=...): write a number that fits into a float") from None
            if not stored:
                raise Misuse(f"run.report({name}={value!r}): write a number")
        if len(self.counters.keys() | counters.keys()) > MOST_COUNTERS:
            raise Misuse(f"a run has at most {MOST_COUNTERS} counters")
        self.counters.update(counters)

    @takes_options("run.completing", own=ALL)
    @contextlib.asynccontextmanager
    async def completing(self, conn: Any) -> AsyncIterator[Any]:
        """A transaction on your own PostgreSQL connection that completes this run. Its effects happen exactly once.

        Your writes and the outcome of the slot are in one transaction. The server commits both or neither, and no
        second attempt can repeat them. Raises `LeaseLost` if the run has lost its slot; then nothing was written.
        Raises `Misuse` if PostgreSQL does not keep the runs.
        """
        finish = getattr(self._runs, "finish_in", None)
        if finish is None:
            raise Misuse("run.completing(conn) needs the runs in the same database: use PostgresLeases")
        ending = Ending(outcome="completed", token=self.token, counters=self.counters)
        async with self._lease.fenced(conn):
            yield conn
            if not await finish(conn, self.job, slot=self._slot, run=self.id, ending=ending):
                raise LeaseLost(self.job, token=self.token, why="another run has the slot by now")
        self.completed = True
