"""The queries of people and front ends about jobs. A program that only looks can use them, too."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import get_args

from stampede_guard.errors import Misuse, PolicyError
from stampede_guard.jobs.backends import runs_of
from stampede_guard.jobs.backends.protocol import RunBackend
from stampede_guard.jobs.history.deadman import JobHealth, health_of
from stampede_guard.jobs.history.statistics import Statistics, statistics
from stampede_guard.jobs.history.web import Allow, JobsApp
from stampede_guard.jobs.keeping import OPERATOR_TIMEOUT
from stampede_guard.jobs.messages import JobView, Outcome, Registration, RunView
from stampede_guard.leases import checks
from stampede_guard.leases.client import Leases
from stampede_guard.leases.owner import called
from stampede_guard.options import ALL, takes_options

__all__ = ["JobRecords"]

MOST_IN_STATISTICS = 1_000


class JobRecords:
    """The part of `Jobs` that reads and forgets, and follows no schedule."""

    def __init__(self, leases: Leases, runs: Callable[[], RunBackend] | None) -> None:
        if not isinstance(leases, Leases):
            raise Misuse(
                f"Jobs(leases) needs a Leases object, such as PostgresLeases.from_url(...), not {leases!r}"
            )
        if runs is not None and not callable(runs):
            raise Misuse(f"runs={runs!r}: write a function that opens a back end")
        self.leases = leases
        self._open_runs = runs
        self._runs: dict[asyncio.AbstractEventLoop, RunBackend] = {}

    @takes_options("jobs.view", own=ALL)
    async def view(self, name: str) -> JobView | None:
        return await self.runs().view(self.leases.full(name), timeout=OPERATOR_TIMEOUT)

    @takes_options("jobs.views", own=("limit",))
    async def views(self, *, limit: int = 1_000) -> list[JobView]:
        """All jobs of the namespace that any worker ever registered, except forgotten ones."""
        checks.whole("limit", limit, least=0)
        return await self.runs().views(self.leases.prefix, limit=limit, timeout=OPERATOR_TIMEOUT)

    @takes_options("jobs.history", own=("limit", "before"))
    async def history(
        self, name: str, *, limit: int = 100, before: int | None = None, outcomes: Sequence[Outcome] = ()
    ) -> list[RunView]:
        """The runs of a job, newest slot first.

        `before`: only earlier slots; whole milliseconds since 1970, as in `RunView.slot`.
        """
        checks.whole("limit", limit, least=0)
        if before is not None:
            checks.whole("before", before, least=0)
        allowed = get_args(Outcome)
        if isinstance(outcomes, str) or any(outcome not in allowed for outcome in outcomes):
            raise PolicyError("outcomes", outcomes, f"write a tuple of {', '.join(allowed)}")
        return await self.runs().history(
            self.leases.full(name), limit=limit, before=before, outcomes=outcomes, timeout=OPERATOR_TIMEOUT
        )

    @takes_options("jobs.statistics", own=ALL)
    async def statistics(self, name: str) -> Statistics:
        """Statistics of the newest 1,000 runs."""
        return statistics(await self.history(name, limit=MOST_IN_STATISTICS))

    async def health(self) -> list[JobHealth]:
        """The dead-man signal of every job of the namespace, including jobs that this worker does not have."""
        return [health_of(view) for view in await self.views()]

    @takes_options("jobs.app", own=ALL)
    def app(self, *, allow: Allow | None = None) -> JobsApp:
        """An ASGI application that shows all this as JSON. It answers 403 unless `allow(scope)` returns True."""
        return JobsApp(self, allow)

    @takes_options("jobs.pause", own=("by",))
    async def pause(self, name: str, *, by: str = "") -> JobView:
        """Pause the job in the whole fleet: no worker takes a slot from the return of this call until `resume`.

        Runs that go on are not interrupted. A slot that a worker took before still runs, for example when its `jitter`
        has passed: it is among the `running` of the returned view. `run_now` still works. `by`: who pauses it, for
        people; by default this process. A second pause changes nothing. A paused job is never overdue. After the
        resume, slots that came due meanwhile are treated like those of an outage: within `misfire_grace` they run, and
        with `coalesce` only the latest; the others are `missed`. Raises `Misuse` for a job that no worker registered,
        and `StoreError` if the back end is away: then the job may be paused or not.
        """
        if not isinstance(by, str):
            raise Misuse(f"by={by!r}: write the name of the person who pauses it")
        who = checks.storable(by) or called(self.leases.part().owner)
        return self._found(
            name, await self.runs().pause(self.leases.full(name), by=who, timeout=OPERATOR_TIMEOUT)
        )

    @takes_options("jobs.resume", own=ALL)
    async def resume(self, name: str) -> JobView:
        """End the pause of a job. A job that is not paused stays as it is. Raises what `pause` raises."""
        return self._found(name, await self.runs().resume(self.leases.full(name), timeout=OPERATOR_TIMEOUT))

    @staticmethod
    def _found(name: str, view: JobView | None) -> JobView:
        if view is None:
            raise Misuse(f"no worker ever registered a job {name!r}")
        return view

    @takes_options("jobs.forget", own=ALL)
    async def forget(self, name: str) -> bool:
        """Delete a job that no longer exists, with its history. Otherwise it would stay overdue for ever."""
        return await self.runs().forget(self.leases.full(name), timeout=OPERATOR_TIMEOUT)

    def runs(self) -> RunBackend:
        """The running event loop's back end of slots and history."""
        loop = asyncio.get_running_loop()
        if self._open_runs is None:
            return runs_of(self.leases.part().backend)
        known = self._runs.get(loop)
        if known is None:
            # Leave the back ends of other live loops alone: their followers use them.
            for ended in [other for other in tuple(self._runs) if other.is_closed()]:
                self._runs.pop(ended, None)
            known = self._runs[loop] = self._open_runs()
        return known

    @takes_options("jobs.retire", own=ALL)
    async def retire(self, name: str) -> None:
        """Remove the job's rhythm, so that it is never overdue. Its history stays."""
        runs = self.runs()
        view = await runs.view(self.leases.full(name), timeout=OPERATOR_TIMEOUT)
        if view is not None and view.rhythm:
            await runs.register(
                Registration(
                    job=view.job,
                    schedule=view.schedule,
                    fingerprint=view.fingerprint,
                    rhythm=0.0,
                    version=view.version,
                    seen_for=view.seen_for,
                ),
                timeout=OPERATOR_TIMEOUT,
            )
