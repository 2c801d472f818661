"""Schedules from a table that people edit while the program runs.

    table = jobs.table({"sync": sync}, connect=pool.acquire)         # rows have job = 'sync'

| column | |
|---|---|
| `id` | identifies the row: its job is called `sync#ID` in history, metrics and logs |
| `job` | one of the given names |
| `arguments` | JSON object: keyword arguments of the function |
| `cron`, `tz` | the schedule; `tz` may be null, for UTC |
| `is_active` | only active rows are followed |
| `last_run_at` | the slot of the latest completed run, written after it |

`TABLE_SQL` creates such a table. The rows are read every `poll_every` seconds. An invalid row is logged once, and its
last valid state stays in force. While the table cannot be read, all rows stay in force.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Mapping
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

__all__ = ["TABLE_SQL", "PostgresRows", "Row", "Rows", "ScheduleTable"]

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
    ) -> None:
        if not functions or not isinstance(functions, Mapping):
            raise Misuse("a table of schedules needs the functions that its rows may name: {'sync': sync}")
        for name in functions:
            if not name or not isinstance(name, str):
                raise Misuse(f"a row cannot name the job {name!r}: use a string, as in {{'sync': sync}}")
        if not all(callable(getattr(rows, method, None)) for method in ("active", "ran")):
            raise Misuse(f"rows={rows!r}: write an object with active() and ran(), or connect=pool.acquire")
        self._jobs = jobs
        self._functions = {name: function_of(function, name) for name, function in functions.items()}
        self._rows = rows
        self._poll_every = checks.seconds("poll_every", poll_every, above=True)
        self._terms = dict(terms)
        terms_of(self._terms, also=())
        self._followed: dict[str, Row] = {}
        self._leaving: set[str] = set()
        """Jobs that this worker follows no longer, and has not retired in the back end yet."""
        self._refused: dict[str, str] = {}
        self._unreadable = False
        self._too_many = False

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
        wanted = {f"{row.job}#{row.id}": row for row in rows[:MOST_ROWS]}
        for name in self._followed.keys() - wanted.keys():
            del self._followed[name]
            self._leaving.add(name)
            await self._jobs.remove(name)
        self._leaving -= wanted.keys()
        for name in tuple(self._leaving):
            await self._retire(name)
        self._refused = {name: told for name, told in self._refused.items() if name in wanted}
        for name, row in wanted.items():
            if self._followed.get(name) != row:
                self._take(name, row)

    async def _retire(self, name: str) -> None:
        try:
            await self._jobs.retire(name)
        except StoreError as error:
            # Retry at the next look. Otherwise the job would be overdue for ever.
            log.warning("job %s: removed, but not yet retired in the back end: %s", name, error)
        else:
            self._leaving.discard(name)

    def _take(self, name: str, row: Row) -> None:
        try:
            function = self._functions.get(row.job)
            if function is None:
                raise Misuse(f"there is no job {row.job!r}, only {', '.join(sorted(self._functions))}")
            schedule = Cron.of(row.cron, tz=row.tz)
            self._jobs.put(Job(name, schedule, self._noted(function, row), terms_of(self._terms)))
        except (Misuse, TypeError) as error:
            if self._refused.get(name) != repr(row):
                log.error("row %s of the table of schedules is not followed: %s", row.id, error)
                self._refused[name] = repr(row)
        else:
            self._refused.pop(name, None)
            self._followed[name] = row

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
