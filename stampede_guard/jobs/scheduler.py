"""Jobs: functions and their schedules. Any worker that has this object may run a slot."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Self, TypeVar, Unpack
from zoneinfo import ZoneInfo

from stampede_guard.durations import Duration
from stampede_guard.errors import Misuse, StoreError
from stampede_guard.jobs.backends.protocol import RunBackend
from stampede_guard.jobs.byhand import begun_by_hand
from stampede_guard.jobs.execution import Execution
from stampede_guard.jobs.following.follower import Follower
from stampede_guard.jobs.following.looks import Looks
from stampede_guard.jobs.history.records import JobRecords
from stampede_guard.jobs.job import Job, TermOptions, check_fit, function_of, terms_of
from stampede_guard.jobs.keeping import FIRST_PRUNE, KEEP, KEEP_FOR, OPERATOR_TIMEOUT, PRUNE_EVERY
from stampede_guard.jobs.messages import Ending
from stampede_guard.jobs.naming import name_of, place_of, two_functions
from stampede_guard.jobs.reporting import log
from stampede_guard.jobs.running import Running, ended, log_end
from stampede_guard.jobs.schedules.dialects import Dialect, cron_of
from stampede_guard.jobs.schedules.schedule import Every, Schedule
from stampede_guard.jobs.table import Rows, ScheduleTable, source_of
from stampede_guard.leases import checks
from stampede_guard.leases.client import Leases
from stampede_guard.leases.keeping.loop_state import LoopState
from stampede_guard.options import ALL, takes_options

__all__ = ["Jobs"]

F = TypeVar("F", bound=Callable[..., Any])
_STARTED: weakref.WeakSet[Jobs] = weakref.WeakSet()


class Jobs(JobRecords):
    """`jobs = Jobs(leases)`, then `@jobs.cron(...)` or `@jobs.every(...)`, and `FastAPI(lifespan=jobs.lifespan)`.

    Every worker that runs the lifespan follows every schedule. Each slot has exactly one outcome among all workers.
    While the back end is away, no new run starts. `runs`: opens a back end for slots and history, once per event loop,
    if it differs from the back end of the leases. `version`: of your program; if old and new workers run at once, the
    schedules of the greater version are in force. `drain_timeout`: seconds that runs have to end when the program ends;
    then they are cancelled. The history of a job keeps its newest 1,000 runs and the runs of 30 days, at most 10,000.
    Raises `Misuse` for invalid arguments.
    """

    @takes_options("Jobs", own=ALL)
    def __init__(
        self,
        leases: Leases,
        *,
        runs: Callable[[], RunBackend] | None = None,
        version: int = 0,
        drain_timeout: Duration = 30.0,
    ) -> None:
        super().__init__(leases, runs)
        checks.whole("version", version, least=0)
        self.version = version
        self._drain_timeout = checks.seconds("drain_timeout", drain_timeout)
        self._jobs: dict[str, Job] = {}
        self._followers: dict[str, tuple[Follower, asyncio.Task[None]]] = {}
        self._tables: list[ScheduleTable] = []
        self._table_tasks: set[asyncio.Task[None]] = set()
        self._replaced: set[asyncio.Task[None]] = set()
        self._pressed: set[asyncio.Task[Any]] = set()
        self._running = Running()
        self._keeping: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._part: LoopState | None = None
        self._looks: tuple[LoopState, Looks] | None = None

    # --- jobs and schedules

    @takes_options("jobs.cron", own=ALL)
    def cron(
        self,
        expression: str,
        *,
        tz: str | ZoneInfo = "UTC",
        name: str | None = None,
        dialect: Dialect = "debian",
        **terms: Unpack[TermOptions],
    ) -> Callable[[F], F]:
        """`@jobs.cron("0 3 * * *", tz="Europe/Berlin")`. `terms`: see `stampede_guard.jobs.job.Terms`.

        `name`: the job's name in all workers, by default the name of the function. `dialect="apscheduler"` reads the
        line as APScheduler 3's `CronTrigger.from_crontab` does (0 is Monday), see docs/run-once.md. Raises
        `PolicyError` for invalid arguments, and `Misuse` if another function has the name.
        """
        return self._decorator(cron_of(expression, tz=tz, dialect=dialect), name, terms)

    @takes_options("jobs.every", own=ALL)
    def every(
        self,
        seconds: Duration,
        *,
        anchor: datetime | None = None,
        name: str | None = None,
        **terms: Unpack[TermOptions],
    ) -> Callable[[F], F]:
        """`@jobs.every(300)`: counted from midnight in UTC, or from `anchor`. Write one if `seconds` divide no day."""
        return self._decorator(Every.of(seconds, anchor=anchor), name, terms)

    @takes_options("jobs.add", own=ALL)
    def add(
        self,
        function: Callable[..., Any],
        schedule: Schedule,
        *,
        name: str | None = None,
        arguments: Mapping[str, Any] | None = None,
        **terms: Unpack[TermOptions],
    ) -> Job:
        """Add a job without a decorator. If the job is already followed, the new schedule replaces the old one now."""
        called = name_of(function, name)
        self.leases.full(called)
        if isinstance(schedule, type) or not callable(getattr(schedule, "after", None)):
            raise Misuse(
                f"the job {called!r} needs a schedule, Cron.of('0 3 * * *') or Every.of(300), not {schedule!r}"
            )
        if arguments is not None and not isinstance(arguments, Mapping):
            raise Misuse(f"arguments={arguments!r}: write a dict, {{'repository': 'a'}}")
        check_fit(function_of(function, called), called, arguments or {})
        known = self._jobs.get(called)
        if known is not None and known.function != function:
            raise two_functions(called, known.function, function)
        if self._keeping is not None:
            self._refuse_another(called, function)
        return self.put(Job(called, schedule, function, terms_of(terms), dict(arguments or {})))

    @takes_options("jobs.put", own=ALL)
    def put(self, job: Job) -> Job:
        """Add this job. It replaces a job of the same name."""
        self.leases.full(job.name)
        self._jobs[job.name] = job
        if self._keeping is not None:
            self._follow(job)
        return job

    @takes_options("jobs.table", own=ALL)
    def table(
        self,
        functions: Mapping[str, Callable[..., Any]],
        *,
        connect: Callable[[], Any] | None = None,
        rows: Rows | None = None,
        table: str = "job_schedules",
        prefix: str | None = None,
        poll_every: Duration = 10.0,
        **terms: Unpack[TermOptions],
    ) -> ScheduleTable:
        """Schedules from a PostgreSQL table, or from any `rows`: see `stampede_guard.jobs.table`.

        `prefix`: of the rows' ids in the names of their jobs. A second table with the same functions needs one, also
        that of another program with this namespace.
        """
        made = ScheduleTable(
            self,
            functions,
            source_of(connect, rows, table),
            poll_every=poll_every,
            terms=terms,
            prefix=prefix,
            declared=self._jobs.get,
        )
        made.check_beside(self._tables)
        self._tables.append(made)
        if self._keeping is not None:
            self._follow_table(made)
        return made

    @takes_options("jobs.remove", own=ALL)
    async def remove(self, name: str) -> None:
        """Stop following the job in this worker. Its history stays until `forget`."""
        self._jobs.pop(name, None)
        await self._unfollow([name])

    @property
    def names(self) -> list[str]:
        return sorted(self._jobs)

    # --- life

    @contextlib.asynccontextmanager
    async def lifespan(self, _app: Any = None) -> AsyncIterator[None]:
        """Follow all schedules, including those added later. At the end, wait for runs and close the leases."""
        self.start()
        async with self.leases.in_use():
            try:
                yield
            finally:
                await self.stop()

    def start(self) -> None:
        """Begin in the running event loop. This call never waits for the back end."""
        if self._stopping is not None:
            raise Misuse("these jobs are being stopped: await jobs.stop() before the next start()")
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            raise Misuse(
                "jobs.start() needs a running event loop: call it in a coroutine, or write "
                "FastAPI(lifespan=jobs.lifespan)"
            ) from None
        if self._keeping is not None and self._keeping.get_loop().is_closed():
            # That event loop was closed without `stop()`, and all its tasks ended with it.
            self._keeping = None
            self._followers.clear()
            self._table_tasks.clear()
        if self._keeping is not None:
            raise Misuse("these jobs have been started; one start in each process is enough")
        for job in self._jobs.values():
            self._refuse_another(job.name, job.function)
        self._end_before(self.leases.part())
        self._keeping = asyncio.get_running_loop().create_task(self._keep(), name="stampede_guard jobs")
        _STARTED.add(self)
        for job in self._jobs.values():
            self._follow(job)
        for table in self._tables:
            self._follow_table(table)

    @takes_options("jobs.stop")
    async def stop(self, *, drain_timeout: Duration | None = None) -> None:
        """Stop claiming slots, and wait `drain_timeout` seconds for runs. Then cancel them: they are `abandoned`.

        So it takes at most `drain_timeout`, 15 s, and the time-outs of pending requests. That holds whatever the runs
        do, and while the back end is away. The log names each run that goes on then, and each outcome not stored.

        If this call is cancelled, it cancels the runs at once and goes on in the background. Another `stop()` waits for
        that. Closing the leases first stops the jobs in the same way.
        """
        if self._stopping is None:
            here = self._runs.get(asyncio.get_running_loop())
            if self._keeping is None and not self._running and not self._pressed and here is None:
                return
            patience = checks.seconds(
                "drain_timeout", self._drain_timeout if drain_timeout is None else drain_timeout
            )
            self._stopping = asyncio.get_running_loop().create_task(
                self._stopped(self._followed_no_more(), patience), name="stampede_guard jobs stop"
            )
        elif drain_timeout is not None:
            self._running.hurry()
        stopping = self._stopping
        try:
            await asyncio.wait({stopping})
        except asyncio.CancelledError:
            self._running.hurry()
            raise
        stopping.result()

    def _end_before(self, part: LoopState) -> None:
        """Let a close of the leases stop these jobs first, because the jobs need the leases."""
        self._part = part
        part.before_closing[self.stop] = None

    def _followed_no_more(self) -> set[asyncio.Task[Any]]:
        """Cancel all following tasks at once. So no task goes on claiming if a `stop()` is cancelled half-way."""
        followers = (task for _, task in self._followers.values())
        following = {*self._table_tasks, *self._replaced, *followers}
        if self._keeping is not None:
            following.add(self._keeping)
        self._keeping = None
        self._followers.clear()
        for begun in following:
            begun.cancel()
        return following

    async def _stopped(self, following: set[asyncio.Task[Any]], patience: float) -> None:
        try:
            # Wait for the answers to pending claims, including those of `run_now`. Otherwise a claimed slot would have
            # no run.
            while following := {task for task in (*following, *self._pressed) if not task.done()}:
                await asyncio.wait(following)
            await self._running.drain(patience)
            if (runs := self._runs.get(asyncio.get_running_loop())) is not None:
                await runs.aclose()
        finally:
            self._runs.pop(asyncio.get_running_loop(), None)
            self._stopping = None
            _STARTED.discard(self)
            if self._part is not None:
                self._part.before_closing.pop(self.stop, None)

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    # --- by hand, and by other schedulers

    async def carry(self, execution: Execution, part: LoopState) -> Ending:
        """Perform the run, and return how it ended. `stop()` and a close of the leases wait for it."""
        self._end_before(part)
        return await self._running.perform(execution)

    @takes_options("jobs.run_now", own=ALL)
    async def run_now(self, name: str) -> Ending:
        """Run the job once, now, in this worker, outside its schedule. `overlap` holds. Returns how it ended."""
        job, part = self._known(name), self.leases.part()
        self._end_before(part)
        work = begun_by_hand(self.leases, part, self.runs(), job, version=self.version, running=self._running)
        claiming = part.begin(work, name=f"runs {name} now")
        self._pressed.add(claiming)
        claiming.add_done_callback(self._pressed.discard)
        # If the caller is cancelled, the run goes on: a claimed slot must run.
        await asyncio.wait({claiming})
        execution, run = claiming.result()
        await asyncio.wait({run})
        return ended(execution, run)

    # --- inside

    def _decorator(self, schedule: Schedule, name: str | None, terms: Mapping[str, Any]) -> Callable[[F], F]:
        checked = terms_of(terms)

        def decorate(function: F) -> F:
            self.add(function, schedule, name=name, **{field: getattr(checked, field) for field in terms})
            return function

        return decorate

    def _refuse_another(self, name: str, function: Callable[..., Any]) -> None:
        """Two `Jobs` may follow one job, but only with the same function. Else a random one of two would run."""
        for other in _STARTED - {self}:
            known = other._jobs.get(name) if other.leases is self.leases else None
            if known is not None and place_of(known.function) != place_of(function):
                raise two_functions(name, known.function, function)

    def _known(self, name: Any) -> Job:
        job = self._jobs.get(name) if isinstance(name, str) else None
        if job is None:
            raise Misuse(
                f"there is no job {name!r} in this program; it has {', '.join(self.names) or 'none'}"
            )
        return job

    def _follow(self, job: Job) -> None:
        known = self._followers.pop(job.name, None)
        if known is not None:
            # Its last claim may still be pending. `stop()` waits for it, so that a claimed slot runs.
            known[1].cancel()
            self._replaced.add(known[1])
            known[1].add_done_callback(self._replaced.discard)
        part = self.leases.part()
        if self._looks is None or self._looks[0] is not part:
            self._looks = (part, Looks(part, self.runs()))
        follower = Follower(
            self.leases,
            part,
            self.runs(),
            job,
            version=self.version,
            begin=self._running.begin,
            looks=self._looks[1],
        )
        task = asyncio.get_running_loop().create_task(
            follower.follow(), name=f"stampede_guard job {job.name}"
        )
        task.add_done_callback(log_end)
        self._followers[job.name] = (follower, task)

    def _follow_table(self, table: ScheduleTable) -> None:
        task = asyncio.get_running_loop().create_task(
            table.follow(), name="stampede_guard table of schedules"
        )
        self._table_tasks.add(task)
        task.add_done_callback(self._table_tasks.discard)
        task.add_done_callback(log_end)

    async def _unfollow(self, names: Iterable[str]) -> None:
        tasks = {self._followers.pop(name)[1] for name in names if name in self._followers}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _keep(self) -> None:
        """Keep the history within its bounds. Any worker may do it."""
        part = self.leases.part()
        pause = FIRST_PRUNE
        while True:
            await part.pause(pause * (0.5 + part.world.draw()))
            pause = PRUNE_EVERY
            for name in self.names:
                try:
                    await self.runs().prune(
                        self.leases.full(name), keep=KEEP, older_than=KEEP_FOR, timeout=OPERATOR_TIMEOUT
                    )
                except Exception as error:
                    # Catch every error, because it may be temporary. Without this task the history would only grow.
                    mistake = None if isinstance(error, StoreError) else error
                    log.warning("job %s: its history was not pruned: %s", name, error, exc_info=mistake)
