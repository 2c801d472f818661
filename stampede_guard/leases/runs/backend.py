"""What jobs need of the back end that keeps their slots and history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from stampede_guard.leases.runs.words import (
    Claim,
    ClaimAnswer,
    Ending,
    JobView,
    Look,
    Outcome,
    Registration,
    RunView,
    Seen,
)

__all__ = ["RunBackend"]


class RunBackend(Protocol):
    """A store of slots and runs as one event loop uses it. Job names are complete: namespace and name.

    Every method is one atomic step of the store, on the store's clock, with a time-out of its own (`timeout`, seconds).
    It raises `StoreUnavailable` (not reached, or no answer in time: what was asked may still be carried out) or
    `StoreRefused` (it answered, and the answer was no). It never asks twice by itself.
    """

    async def register(self, registration: Registration, *, timeout: float) -> JobView:
        """The job exists, with this schedule unless that of a later deployment is known. Answers what counts now.

        A worker that registers follows its schedule: where that counts, it was seen to do so just now.
        """

    async def follow(self, registration: Registration, *, timeout: float) -> JobView | None:
        """A worker goes on with its schedule: where it counts, that was seen just now, and is good for `seen_for`
        seconds, or for as long as what another said before. Where another schedule counts nothing changes, unless
        that is of a smaller version. Answers what counts now; None: the job is not known."""

    async def register_all(self, registrations: Sequence[Registration], *, timeout: float) -> list[JobView]:
        """`register` for all jobs of a worker, in their order; one statement where the store can."""

    async def look(self, looks: Sequence[Look], *, again: int, timeout: float) -> list[Seen]:
        """`follow`, `sweep` and, where there is to be another attempt, `retriable` (at most `again` of each job), for
        all jobs of a worker, in their order; one statement where the store can. Of many vanished runs some are left
        for the next look."""

    async def take_over(self, registration: Registration, *, timeout: float) -> bool:
        """Put this schedule, of whatever version, in the place of another that is left: nobody was seen to follow it
        for its `seen_for` seconds. Its slots begin where the other was last seen. Whether that was done."""

    async def claim(self, claim: Claim, *, timeout: float) -> ClaimAnswer:
        """Take a slot, or learn whose it is. A vanished worker's row is marked as abandoned by the way."""

    async def beat(
        self, job: str, *, slot: int, run: str, alive_for: float, token: int, timeout: float
    ) -> bool:
        """The run lives; whether the row is still its own. `token` of the lease it runs under is noted with it."""

    async def finish(self, job: str, *, slot: int, run: str, ending: Ending, timeout: float) -> bool:
        """The run has ended; whether the row was still its own and running. Another's row is never changed."""

    async def record(
        self, job: str, *, slots: Sequence[int], outcome: Outcome, error: str, timeout: float
    ) -> int:
        """Give these slots this outcome where they have none and are not in the future; how many had none."""

    async def sweep(self, job: str, *, timeout: float) -> list[RunView]:
        """Mark the runs whose workers have vanished as abandoned; those marked by this call."""

    async def retriable(self, job: str, *, attempts: int, limit: int, timeout: float) -> list[RunView]:
        """Abandoned runs that were claimed for another attempt than the one they had, and had fewer than `attempts`:
        the oldest slot first."""

    async def view(self, job: str, *, timeout: float) -> JobView | None: ...

    async def views(self, prefix: str, *, limit: int, timeout: float) -> list[JobView]: ...

    async def history(
        self,
        job: str,
        *,
        limit: int,
        before: int | None = None,
        outcomes: Sequence[Outcome] = (),
        timeout: float,
    ) -> list[RunView]:
        """Newest slot first; `before`: only slots earlier than this one; `outcomes`: only these."""

    async def prune(
        self, job: str, *, keep: int, older_than: float, most: int = 10_000, timeout: float
    ) -> int:
        """Forget ended runs beyond the newest `most`, and beyond the newest `keep` those whose slot is more than
        `older_than` seconds ago; how many. In steps that hold nobody up; `timeout` is that of each."""

    async def forget(self, job: str, *, timeout: float) -> bool:
        """The job is no more, with all its history: nobody is to miss it."""

    async def aclose(self) -> None: ...
