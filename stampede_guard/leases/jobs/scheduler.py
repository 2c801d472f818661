"""Jobs: what is to be run when, by any of the workers that have this object."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Self, TypeVar

from stampede_guard.errors import Misuse, StoreError, StoreUnavailable
from stampede_guard.leases.house import Leases
from stampede_guard.leases.jobs.deadman import Health, health_of
from stampede_guard.leases.jobs.execution import Execution
from stampede_guard.leases.jobs.follower import Follower
from stampede_guard.leases.jobs.job import Job, function_of, name_of, terms_of
from stampede_guard.leases.jobs.keeping import KEEP, KEEP_FOR, OPERATOR_TIMEOUT, PRUNE_EVERY
from stampede_guard.leases.jobs.schedule import Cron, Every, Schedule
from stampede_guard.leases.jobs.statistics import Statistics, statistics
from stampede_guard.leases.jobs.table import PostgresRows, Rows, ScheduleTable
from stampede_guard.leases.jobs.telling import log
from stampede_guard.leases.jobs.web import Allow, JobsApp
from stampede_guard.leases.part import Part
from stampede_guard.leases.runs.backend import RunBackend
from stampede_guard.leases.runs.words import Claim, Claimed, Ending, JobView, Outcome, Registration, RunView

__all__ = ["Jobs"]

F = TypeVar("F", bound=Callable[..., Any])
MOST_IN_STATISTICS = 1_000
CLAIMS_BY_HAND = 20


class Jobs:
    """`jobs = Jobs(leases)`, then `@jobs.cron(...)` or `@jobs.every(...)`, and `FastAPI(lifespan=jobs.lifespan)`.

    Every worker that runs the lifespan follows every schedule; each slot has exactly one outcome among them all. With
    the back end away nothing new starts. `runs`: opens another back end for slots and history than that of the
    leases, once in each event loop. `version`: of your program; where old and new workers run at once, the schedules
    of the greater count. `drain_timeout`: seconds that runs have to end when the program does; then they are
    cancelled. The history of a job keeps its newest 1,000 runs and those of 30 days.
    """

    def __init__(
        self,
        leases: Leases,
        *,
        runs: Callable[[], RunBackend] | None = None,
        version: int = 0,
        drain_timeout: float = 30.0,
    ) -> None:
        self.leases = leases
        self.version = version
        self._open_runs = runs
        self._drain_timeout = drain_timeout
        self._jobs: dict[str, Job] = {}
        self._followers: dict[str, tuple[Follower, asyncio.Task[None]]] = {}
        self._tables: list[ScheduleTable] = []
        self._table_tasks: set[asyncio.Task[None]] = set()
        self._replaced: set[asyncio.Task[None]] = set()
        self._running: dict[asyncio.Task[Ending], Execution] = {}
        self._keeping: asyncio.Task[None] | None = None
        self._runs: RunBackend | None = None
        self._runs_loop: asyncio.AbstractEventLoop | None = None

    # --- what is to be run

    def cron(
        self, expression: str, *, tz: str = "UTC", name: str | None = None, **terms: Any
    ) -> Callable[[F], F]:
        """`@jobs.cron("0 3 * * *", tz="Europe/Berlin")`. `terms`: see `stampede_guard.leases.jobs.job.Terms`.

        `name` is the function's unless given; it is what other workers know the job by. Raises `PolicyError` for what
        cannot be, `Misuse` for a name that another function has.
        """
        return self._decorator(Cron.of(expression, tz=tz), name, terms)

    def every(
        self, seconds: float, *, anchor: datetime | None = None, name: str | None = None, **terms: Any
    ) -> Callable[[F], F]:
        """`@jobs.every(300)`: from midnight in UTC, or from `anchor` where the day cannot be divided by it."""
        return self._decorator(Every.of(seconds, anchor=anchor), name, terms)

    def add(
        self,
        function: Callable[..., Any],
        schedule: Schedule,
        *,
        name: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        **terms: Any,
    ) -> Job:
        """The same without a decorator. One that is being followed is followed by its new schedule from now on."""
        called = name_of(function, name)
        self.leases.full(called)
        known = self._jobs.get(called)
        if known is not None and known.function is not function:
            raise Misuse(
                f"two functions are called {called!r}: {_place(known.function)} and {_place(function)}; "
                "give one of them another name="
            )
        return self.put(
            Job(called, schedule, function_of(function, called), terms_of(terms), dict(arguments or {}))
        )

    def put(self, job: Job) -> Job:
        """Take this job in the place of any of the same name."""
        self.leases.full(job.name)
        self._jobs[job.name] = job
        if self._keeping is not None:
            self._follow(job)
        return job

    def table(
        self,
        functions: Mapping[str, Callable[..., Any]],
        *,
        connect: Callable[[], Any] | None = None,
        rows: Rows | None = None,
        table: str = "job_schedules",
        poll_every: float = 10.0,
        **terms: Any,
    ) -> ScheduleTable:
        """Schedules from a PostgreSQL table, or from any `rows`: see `stampede_guard.leases.jobs.table`."""
        if (connect is None) == (rows is None):
            raise Misuse("a table of schedules has connect=pool.acquire, or rows=..., and not both")
        source = PostgresRows(connect, table=table) if connect is not None else rows
        assert source is not None
        made = ScheduleTable(self, functions, source, poll_every=poll_every, terms=terms)
        self._tables.append(made)
        if self._keeping is not None:
            self._follow_table(made)
        return made

    async def remove(self, name: str) -> None:
        """This worker follows it no more. Its history stays until `forget`."""
        self._jobs.pop(name, None)
        await self._unfollow([name])

    async def retire(self, name: str) -> None:
        """Its history stays, and nobody is to miss it: there is no rhythm any more that it would keep."""
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
                ),
                timeout=OPERATOR_TIMEOUT,
            )

    @property
    def names(self) -> list[str]:
        return sorted(self._jobs)

    # --- life

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: Any = None) -> AsyncIterator[None]:
        """Follows all schedules, and those of later `add`s; at the end waits for runs and closes the leases."""
        self.start()
        async with self.leases.in_use():
            try:
                yield
            finally:
                await self.stop()

    def start(self) -> None:
        """Begin in the running event loop. It never waits for the back end."""
        if self._keeping is not None:
            raise Misuse("these jobs have been started; one start in each process is enough")
        self._keeping = asyncio.get_running_loop().create_task(self._keep(), name="stampede_guard jobs")
        for job in self._jobs.values():
            self._follow(job)
        for table in self._tables:
            self._follow_table(table)

    async def stop(self) -> None:
        """No slot is claimed any more; runs have `drain_timeout` seconds, then they are cancelled and are
        `abandoned`.
        """
        if self._keeping is None:
            return
        followers = (task for _, task in self._followers.values())
        following = {self._keeping, *self._table_tasks, *self._replaced, *followers}
        self._keeping = None
        self._followers.clear()
        # All at once: whoever cancels this in the middle leaves nobody behind who claims.
        for begun in following:
            begun.cancel()
        await asyncio.wait(following)
        if self._running:
            await asyncio.wait(set(self._running), timeout=self._drain_timeout)
        left = set(self._running)
        for task in left:
            task.cancel()
        if left:
            log.error("%d runs did not end within drain_timeout=%g s", len(left), self._drain_timeout)
            await asyncio.wait(left)
        if self._open_runs is not None and self._runs is not None:
            await self._runs.aclose()
        self._runs = None

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # --- for people and front ends

    async def run_now(self, name: str) -> Ending:
        """Run it once, now, in this worker, outside its schedule; how it ended. Overlap holds as for its slots."""
        job, part = self._known(name), self.leases.part()
        # Cancelled, it goes on: what was claimed is to be run.
        begun = await part.carry_out(self._begun_now(job, part), name=f"runs {name} now")
        return await asyncio.shield(begun)

    async def _begun_now(self, job: Job, part: Part) -> asyncio.Task[Ending]:
        runs, registration = self.runs(), job.registration(part.prefix, self.version)
        for _ in range(CLAIMS_BY_HAND):
            # Not registered where it is known: this worker's schedule may be the older one, and is not to count again.
            view = await runs.view(registration.job, timeout=OPERATOR_TIMEOUT)
            if view is None:
                view = await runs.register(registration, timeout=OPERATOR_TIMEOUT)
            slot, run, asked_at = int(view.at * 1000) - 1, part.world.fresh(), part.world.now()
            answer = await runs.claim(
                Claim(
                    job=view.job,
                    slot=slot,
                    run=run,
                    owner=part.owner,
                    fingerprint=view.fingerprint,
                    alive_for=job.terms.alive_for,
                    by_hand=True,
                ),
                timeout=OPERATOR_TIMEOUT,
            )
            if isinstance(answer, Claimed):
                execution = Execution(
                    self.leases,
                    part,
                    runs,
                    job,
                    slot=slot,
                    run=run,
                    attempt=1,
                    asked_at=asked_at,
                    last_success_at=answer.last_success_at,
                )
                return self._begin(execution)
            # Somebody asked for the same in the same millisecond, or the schedule or the clock was just set.
            await part.pause(0.001 + 0.01 * part.world.draw())
        raise StoreUnavailable(f"the job {job.name!r} could not be claimed {CLAIMS_BY_HAND} times in a row")

    async def view(self, name: str) -> JobView | None:
        return await self.runs().view(self.leases.full(name), timeout=OPERATOR_TIMEOUT)

    async def views(self, *, limit: int = 1_000) -> list[JobView]:
        """All jobs of the namespace that any worker ever registered and nobody forgot."""
        return await self.runs().views(self.leases.prefix, limit=limit, timeout=OPERATOR_TIMEOUT)

    async def history(
        self, name: str, *, limit: int = 100, before: int | None = None, outcomes: Sequence[Outcome] = ()
    ) -> list[RunView]:
        """Newest slot first."""
        return await self.runs().history(
            self.leases.full(name), limit=limit, before=before, outcomes=outcomes, timeout=OPERATOR_TIMEOUT
        )

    async def statistics(self, name: str) -> Statistics:
        """Of the newest 1,000 runs."""
        return statistics(await self.history(name, limit=MOST_IN_STATISTICS))

    async def health(self) -> list[Health]:
        """The dead-man signal of every job of the namespace, also of those that this worker does not have."""
        return [health_of(view) for view in await self.views()]

    def app(self, *, allow: Allow | None = None) -> JobsApp:
        """An ASGI application that shows all this as JSON, closed unless `allow(scope)` says otherwise."""
        return JobsApp(self, allow)

    async def forget(self, name: str) -> bool:
        """A job that is no more, with its history; else it would be missed for ever."""
        return await self.runs().forget(self.leases.full(name), timeout=OPERATOR_TIMEOUT)

    def runs(self) -> RunBackend:
        """The running event loop's back end of slots and history."""
        loop = asyncio.get_running_loop()
        if self._open_runs is None:
            backend: Any = self.leases.part().backend
            return backend.runs()  # type: ignore[no-any-return]
        if self._runs is None or self._runs_loop is not loop:
            self._runs, self._runs_loop = self._open_runs(), loop
        return self._runs

    # --- inside

    def _decorator(self, schedule: Schedule, name: str | None, terms: dict[str, Any]) -> Callable[[F], F]:
        checked = terms_of(terms)

        def decorate(function: F) -> F:
            self.add(function, schedule, name=name, **{field: getattr(checked, field) for field in terms})
            return function

        return decorate

    def _known(self, name: str) -> Job:
        job = self._jobs.get(name)
        if job is None:
            raise Misuse(
                f"there is no job {name!r} in this program; it has {', '.join(self.names) or 'none'}"
            )
        return job

    def _follow(self, job: Job) -> None:
        known = self._followers.pop(job.name, None)
        if known is not None:
            # Its last claim may still be on its way, and is to be run before all ends.
            known[1].cancel()
            self._replaced.add(known[1])
            known[1].add_done_callback(self._replaced.discard)
        part = self.leases.part()
        follower = Follower(self.leases, part, self.runs(), job, version=self.version, begin=self._begin)
        task = asyncio.get_running_loop().create_task(
            follower.follow(), name=f"stampede_guard job {job.name}"
        )
        task.add_done_callback(_log_end)
        self._followers[job.name] = (follower, task)

    def _follow_table(self, table: ScheduleTable) -> None:
        task = asyncio.get_running_loop().create_task(
            table.follow(), name="stampede_guard table of schedules"
        )
        self._table_tasks.add(task)
        task.add_done_callback(self._table_tasks.discard)
        task.add_done_callback(_log_end)

    async def _unfollow(self, names: Iterable[str]) -> None:
        tasks = {self._followers.pop(name)[1] for name in names if name in self._followers}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _begin(self, execution: Execution) -> asyncio.Task[Ending]:
        task = asyncio.get_running_loop().create_task(execution.perform(), name="stampede_guard run")
        self._running[task] = execution
        task.add_done_callback(lambda ended: self._running.pop(ended, None))
        task.add_done_callback(_log_end)
        return task

    async def _keep(self) -> None:
        """The history stays within its bounds; which worker does it does not matter."""
        part = self.leases.part()
        while True:
            await part.pause(PRUNE_EVERY * (0.5 + part.world.draw()))
            for name in self.names:
                try:
                    await self.runs().prune(
                        self.leases.full(name), keep=KEEP, older_than=KEEP_FOR, timeout=OPERATOR_TIMEOUT
                    )
                except StoreError as error:
                    log.warning("job %s: its history was not pruned: %s", name, error)


def _place(function: Any) -> str:
    return f"{getattr(function, '__module__', '?')}.{getattr(function, '__qualname__', repr(function))}"


def _log_end(task: asyncio.Task[Any]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error("%s ended by a mistake of ours", task.get_name(), exc_info=error)
