"""Schedules from a table that people edit while the program runs.

    table = jobs.table({"sync": sync}, connect=pool.acquire)         # rows have job = 'sync'

| column | |
|---|---|
| `id` | identifies the row: its job is called `sync#ID` in history, metrics and logs, or `sync#PREFIX.ID` |
| `job` | one of the given names |
| `arguments` | JSON object: keyword arguments of the function |
| `cron`, `tz` | the schedule; `tz` may be null, for UTC |
| `is_active` | only active rows are followed |
| `last_run_at` | the slot of the latest completed run, written after it |

A second table with the same functions needs a prefix: `jobs.table(..., prefix="billing")`. Otherwise two rows with one
id would be one job. For the same reason, the tables of two programs (or two `Jobs`) with one namespace need two
prefixes: they share the back end. A row whose job name belongs to something else is logged once, and is not followed.

`TABLE_SQL` creates such a table. The rows are read every `poll_every` seconds. An invalid row is logged once, and its
last valid state stays in force. While the table cannot be read, all rows stay in force.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from stampede_guard.durations import Duration
from stampede_guard.errors import Misuse, StoreError
from stampede_guard.jobs.job import Job, Terms, function_of, terms_of
from stampede_guard.jobs.reporting import log
from stampede_guard.jobs.run import Run
from stampede_guard.jobs.schedules.schedule import Cron
from stampede_guard.leases import checks

if TYPE_CHECKING:
    from stampede_guard.jobs.scheduler import Jobs

__all__ = ["TABLE_SQL", "PostgresRows", "Row", "Rows", "ScheduleTable", "source_of"]

TABLE_SQL = """\
CREATE TABLE IF NOT EXISTS job_schedules (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    job         text NOT NULL,
    arguments   jsonb NOT NULL DEFAULT '{}',
    cron        text NOT NULL,
    tz          text,
    is_active   boolean NOT NULL DEFAULT true,
    last_run_at timestamptz
)
"""
MOST_ROWS = 1_000
QUERY_TIMEOUT = 5.0
_PREFIX = re.compile(r"[A-Za-z0-9_-]{1,40}")
"""Without a dot, so that no two pairs of a prefix and an id are one job name."""
_IDENTIFIER = re.compile(r"[a-z_][a-z0-9_]{0,62}(\.[a-z_][a-z0-9_]{0,62})?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    id: int | str
    job: str
    arguments: Mapping[str, Any]
    cron: str
    tz: str = "UTC"


class Rows(Protocol):
    """The source of the rows. Exceptions are logged. After one from `active()` the table counts as unreadable."""

    async def active(self) -> list[Row]: ...

    async def ran(self, id: int | str, slot: datetime) -> None: ...


class PostgresRows:
    """`connect()` returns an async context manager with an asyncpg connection, as `pool.acquire` does."""

    def __init__(self, connect: Callable[[], Any], *, table: str = "job_schedules") -> None:
        if not callable(connect):
            raise Misuse(
                f"connect={connect!r}: write pool.acquire, or another function that gives a connection as it does"
            )
        if not _IDENTIFIER.fullmatch(checks.text(table)):
            raise Misuse(
                f"table={table!r}: write a plain name, such as 'job_schedules' or 'ops.job_schedules'"
            )
        self._connect = connect
        self._table = table

    async def active(self) -> list[Row]:
        async with self._connect() as connection:
            found = await connection.fetch(
                f"SELECT id, job, arguments, cron, coalesce(tz, 'UTC') AS tz FROM {self._table} "
                f"WHERE is_active ORDER BY id LIMIT {MOST_ROWS + 1}",
                timeout=QUERY_TIMEOUT,
            )
        return [
            Row(
                id=row["id"],
                job=row["job"],
                arguments=_object(row["arguments"]),
                cron=row["cron"],
                tz=row["tz"],
            )
            for row in found
        ]

    async def ran(self, id: int | str, slot: datetime) -> None:
        async with self._connect() as connection:
            await connection.execute(
                f"UPDATE {self._table} SET last_run_at = greatest(last_run_at, $2) WHERE id = $1",
                id,
                slot,
                timeout=QUERY_TIMEOUT,
            )


def source_of(connect: Callable[[], Any] | None, rows: Rows | None, table: str) -> Rows:
    """`rows`, or the rows of this PostgreSQL table. Raises `Misuse` unless exactly one of both is given."""
    if connect is not None and rows is None:
        return PostgresRows(connect, table=table)
    if rows is None or connect is not None:
        raise Misuse("a table of schedules needs either connect=pool.acquire or rows=..., not both")
    return rows


class ScheduleTable:
    """Made by `Jobs.table`. It is followed for as long as the jobs are followed."""

    def __init__(
        self,
        jobs: Jobs,
        functions: Mapping[str, Callable[..., Any]],
        rows: Rows,
        *,
        poll_every: Duration,
        terms: Mapping[str, Any],
        prefix: str | None,
        declared: Callable[[str], Job | None],
    ) -> None:
        if not functions or not isinstance(functions, Mapping):
            raise Misuse("a table of schedules needs the functions that its rows may name: {'sync': sync}")
        for job in functions:
            if not job or not isinstance(job, str):
                raise Misuse(f"a row cannot name the job {job!r}: use a string, as in {{'sync': sync}}")
        if not all(callable(getattr(rows, method, None)) for method in ("active", "ran")):
            raise Misuse(f"rows={rows!r}: write an object with active() and ran(), or connect=pool.acquire")
        if prefix is not None and not _PREFIX.fullmatch(checks.text(prefix)):
            raise Misuse(
                f"prefix={prefix!r}: write a short name of letters, digits, '_' and '-', such as 'billing'"
            )
        self.prefix = prefix
        self._jobs = jobs
        self._declared = declared
        self._functions = {job: function_of(function, job) for job, function in functions.items()}
        self._rows = rows
        self._poll_every = checks.seconds("poll_every", poll_every, above=True)
        self._terms = dict(terms)
        terms_of(self._terms, also=())
        self._followed: dict[str, tuple[Row, Job]] = {}
        self._leaving: set[str] = set()
        """Jobs that this worker follows no longer, and has not retired in the back end yet."""
        self._refused: set[tuple[str, str]] = set()
        """Job names and rows that the latest look refused. Each is logged when it is refused first."""
        self._unreadable = False
        self._too_many = False

    def check_beside(self, others: Iterable[ScheduleTable]) -> None:
        """Raises `Misuse` if rows of this table and of another one may have the same job name."""
        for other in others:
            if other.prefix == self.prefix and (
                shared := sorted(other._functions.keys() & self._functions.keys())
            ):
                which = f"the prefix {self.prefix!r}" if self.prefix else "no prefix"
                raise Misuse(
                    f"two tables of schedules with {which} have the function {shared[0]!r}, so rows with one id "
                    "would be one job: give one of them a prefix of its own, jobs.table(..., prefix='billing')"
                )

    async def follow(self) -> None:
        """Follow the table until cancelled."""
        part = self._jobs.leases.part()
        while True:
            await self.look()
            await part.pause(self._poll_every * (0.9 + 0.2 * part.world.draw()))

    async def look(self) -> None:
        """Read the table now, and follow its rows."""
        try:
            # Twice the time-out of a query: the pool may also need time to give a connection.
            async with asyncio.timeout(2 * QUERY_TIMEOUT):
                rows = await self._rows.active()
        except Exception as error:
            if not self._unreadable:
                log.error("the table of schedules cannot be read, the last rows stay in force: %r", error)
            self._unreadable = True
            return
        self._unreadable = False
        if len(rows) > MOST_ROWS and not self._too_many:
            log.error(
                "the table of schedules has more than %d active rows; the first are followed", MOST_ROWS
            )
        self._too_many = len(rows) > MOST_ROWS
        told, self._refused = self._refused, set()
        wanted: dict[str, Row] = {}
        for row in rows[:MOST_ROWS]:
            name = self._name_of(row)
            if wanted.setdefault(name, row) is not row:
                self._refuse(name, row, f"another row has the job name {name!r}", told)
        for name in self._followed.keys() - wanted.keys():
            if self._is_free(name):
                self._leaving.add(name)
                await self._jobs.remove(name)
            del self._followed[name]
        self._leaving -= wanted.keys()
        self._leaving -= set(self._jobs.names)
        for name in tuple(self._leaving):
            await self._retire(name)
        for name, row in wanted.items():
            if name not in self._followed or self._followed[name][0] != row:
                self._take(name, row, told)

    def _name_of(self, row: Row) -> str:
        return f"{row.job}#{row.id}" if self.prefix is None else f"{row.job}#{self.prefix}.{row.id}"

    def _is_free(self, name: str) -> bool:
        """Whether no job has this name, or only the one that this table has put there."""
        known = self._declared(name)
        return known is None or (name in self._followed and known is self._followed[name][1])

    async def _retire(self, name: str) -> None:
        try:
            await self._jobs.retire(name)
        except StoreError as error:
            # Retry at the next look. Otherwise the job would be overdue for ever.
            log.warning("job %s: removed, but not yet retired in the back end: %s", name, error)
        else:
            self._leaving.discard(name)

    def _take(self, name: str, row: Row, told: set[tuple[str, str]]) -> None:
        try:
            function = self._functions.get(row.job)
            if function is None:
                raise Misuse(f"there is no job {row.job!r}, only {', '.join(sorted(self._functions))}")
            if not self._is_free(name):
                raise Misuse(
                    f"this program has another job with the name {name!r}: rename that job, or write "
                    "jobs.table(..., prefix='billing')"
                )
            schedule = Cron.of(row.cron, tz=row.tz)
            job = self._jobs.put(Job(name, schedule, self._noted(function, row), terms_of(self._terms)))
        except (Misuse, TypeError) as error:
            self._refuse(name, row, str(error), told)
        else:
            self._followed[name] = (row, job)

    def _refuse(self, name: str, row: Row, why: str, told: set[tuple[str, str]]) -> None:
        refused = (name, repr(row))
        if refused not in told | self._refused:
            log.error("row %s of the table of schedules is not followed: %s", row.id, why)
        self._refused.add(refused)

    def _noted(self, function: Callable[..., Any], row: Row) -> Callable[[Run], Any]:
        """The function with the row's arguments. After a completed run it writes `last_run_at` into the row."""
        bare = Job(row.job, Cron(row.cron, row.tz), function, Terms(), dict(row.arguments))

        async def run(run: Run) -> None:
            await bare.call(run)
            try:
                async with asyncio.timeout(2 * QUERY_TIMEOUT):
                    await self._rows.ran(row.id, run.slot)
            except Exception as error:
                log.warning("job %s: last_run_at was not written: %r", run.job, error)

        return run


def _object(arguments: Any) -> Mapping[str, Any]:
    """asyncpg returns jsonb as text unless the connection has a codec for it."""
    found = json.loads(arguments) if isinstance(arguments, str | bytes) else arguments
    return found if isinstance(found, dict) else {"arguments of this row are no object": found}
