"""The interface of a back end that keeps the slots and history of jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

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

__all__ = ["RunBackend"]


class RunBackend(Protocol):
    """A store of slots and runs, for one event loop. Job names are complete: namespace and name.

    Every method is one atomic step of the store, on the store's clock, with its own time-out (`timeout`, seconds). It
    raises `StoreUnavailable` if the store is not reached or does not answer in time: the step may still happen later.
    It raises `StoreRefused` if the store answers with an error. It never retries by itself.
    """

    async def register(self, registration: Registration, *, timeout: float) -> JobView:
        """Register a job with this schedule, unless a schedule of a greater version is in force.

        Returns the job with the schedule in force. If that is this schedule, the call is also a sign that a worker
        follows it.
        """

    async def follow(self, registration: Registration, *, timeout: float) -> JobView | None:
        """Send a sign that a worker follows this schedule. Returns the job; None = the job is not known.

        If the schedule is in force, the sign is valid for `seen_for` seconds, or for longer if an earlier sign is. If
        another schedule is in force, nothing changes, unless that one has a smaller version.
        """

    async def register_all(self, registrations: Sequence[Registration], *, timeout: float) -> list[JobView]:
        """`register` for all jobs of a worker, in this order. One statement if the store can do that."""

    async def look(self, looks: Sequence[JobPoll], *, again: int, timeout: float) -> list[PollAnswer]:
        """`follow` and `sweep` for all jobs of a worker, in this order. One statement if the store can do that.

        For jobs that allow more than one attempt, also `retriable` (at most `again` runs of each job). If many runs
        have vanished, some may be left for the next look.
        """

    async def take_over(self, registration: Registration, *, timeout: float) -> bool:
        """Replace a schedule that no worker follows any more: it got no sign for its `seen_for` seconds.

        The version does not matter. The slots of the new schedule begin at the last sign of the other. Returns whether
        the schedule was replaced.
        """

    async def claim(self, claim: Claim, *, timeout: float) -> ClaimAnswer:
        """Take a slot, or learn its state. If the worker that has the slot vanished, its run is marked as abandoned."""

    async def pause(self, job: str, *, by: str, timeout: float) -> JobView | None:
        """Let no claim take a slot, in the whole fleet, until `resume`. Returns the job; None = it is not known.

        A claim that is answered after this call returned starts nothing, unless it is by hand or repeats an earlier
        claim. Runs that go on are not interrupted. The pause survives restarts of workers and new schedules; `forget`
        ends it. A second pause changes nothing. `by`: who pauses it, for people; cut to 200 characters.
        """

    async def resume(self, job: str, *, timeout: float) -> JobView | None:
        """End the pause. Returns the job; None = it is not known. Without a pause nothing changes."""

    async def beat(
        self, job: str, *, slot: int, run: str, alive_for: float, token: int, timeout: float
    ) -> bool:
        """Send a heartbeat of a run. Returns whether the slot still belongs to it. `token`: of its lease, is stored."""

    async def finish(self, job: str, *, slot: int, run: str, ending: Ending, timeout: float) -> bool:
        """Store the outcome of a run. Returns False, and changes nothing, unless the slot is its own and running."""

    async def record(
        self, job: str, *, slots: Sequence[int], outcome: Outcome, error: str, timeout: float
    ) -> int:
        """Give this outcome to the slots that have none and are not in the future. Returns how many those are."""

    async def sweep(self, job: str, *, timeout: float) -> list[RunView]:
        """Mark the runs of vanished workers as abandoned. Returns the runs that this call marked."""

    async def retriable(self, job: str, *, attempts: int, limit: int, timeout: float) -> list[RunView]:
        """Abandoned runs whose claim allows another attempt, and that had fewer than `attempts`. Oldest slot first."""

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
        """The runs of a job, newest slot first. `before`: only earlier slots. `outcomes`: only these; () = all."""

    async def prune(
        self, job: str, *, keep: int, older_than: float, most: int = 10_000, timeout: float
    ) -> int:
        """Delete ended runs. Returns how many were deleted.

        Delete all beyond the newest `most`. Beyond the newest `keep`, delete those whose slot is more than `older_than`
        seconds ago. It works in short steps that do not block other clients; `timeout` is for each step.
        """

    async def forget(self, job: str, *, timeout: float) -> bool:
        """Delete the job with all its history, so that it is never overdue. Returns whether it was known."""

    async def aclose(self) -> None: ...
