"""Slots and runs in PostgreSQL, through the connections of the leases' back end."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from stampede_guard.errors import StoreRefused
from stampede_guard.jobs.backends.postgres.statements import JobStatements
from stampede_guard.jobs.messages import (
    Claim,
    ClaimAnswer,
    Claimed,
    Early,
    Ending,
    JobPoll,
    JobView,
    Outcome,
    Outdated,
    Paused,
    PollAnswer,
    Registration,
    RunView,
    Taken,
)
from stampede_guard.jobs.rules import LONGEST_ERROR, MOST_RUNS
from stampede_guard.leases.messages import Owner
from stampede_guard.leases.postgres.connections import Connections
from stampede_guard.leases.postgres.external import in_transaction

__all__ = ["PostgresRuns"]

_TRIES = 3
AT_ONCE = 500
"""The most runs that one statement deletes. It locks the job's row for that time."""


class PostgresRuns:
    """A `RunBackend`. `room` and `beats` belong to the leases' back end, which closes them.

    `beats` are connections for heartbeats only, so that a heartbeat never waits for other statements.
    """

    def __init__(self, room: Connections, beats: Connections, *, schema: str) -> None:
        self._room = room
        self._beats = beats
        self._sql = JobStatements.of(schema)

    async def register(self, registration: Registration, *, timeout: float) -> JobView:
        rows = await self._room.fetch(self._sql.register, *_schedule(registration), timeout=timeout)
        return _job(rows[0])

    async def follow(self, registration: Registration, *, timeout: float) -> JobView | None:
        rows = await self._room.fetch(self._sql.follow, *_schedule(registration), timeout=timeout)
        return _job(rows[0]) if rows else None

    async def register_all(self, registrations: Sequence[Registration], *, timeout: float) -> list[JobView]:
        if not registrations:
            return []
        rows = await self._room.fetch(self._sql.register_all, *_columns(registrations), timeout=timeout)
        found = {row["name"]: _job(row) for row in rows}
        return [found[registration.job] for registration in registrations]

    async def look(self, looks: Sequence[JobPoll], *, again: int, timeout: float) -> list[PollAnswer]:
        if not looks:
            return []
        columns = _columns([look.registration for look in looks])
        attempts = [look.attempts for look in looks]
        rows = await self._room.fetch(self._sql.look, *columns, attempts, again, timeout=timeout)
        found = {}
        for row in rows:
            fields = dict(row)
            vanished, tried = json.loads(fields.pop("vanished")), json.loads(fields.pop("again"))
            view = JobView(job=fields.pop("name"), running=tuple(fields.pop("running")), **fields)
            found[view.job] = PollAnswer(
                view, tuple(map(_run_of_json, vanished)), tuple(map(_run_of_json, tried))
            )
        return [found.get(look.registration.job, PollAnswer(None)) for look in looks]

    async def take_over(self, registration: Registration, *, timeout: float) -> bool:
        return bool(await self._room.fetch(self._sql.take_over, *_schedule(registration), timeout=timeout))

    async def claim(self, claim: Claim, *, timeout: float) -> ClaimAnswer:
        args = (
            claim.run,
            claim.fingerprint,
            json.dumps(asdict(claim.owner)),
            claim.alive_for,
            claim.attempts,
            claim.by_hand,
        )

        async def step(connection: Any) -> ClaimAnswer:
            for _ in range(_TRIES):
                row = await connection.fetchrow(self._sql.claim, _ms(timeout), claim.job, claim.slot, *args)
                if row is not None:
                    return _answer(row)
                job = await connection.fetchrow(
                    self._sql.make, claim.job, claim.slot, claim.fingerprint, claim.by_hand
                )
                if job is None:
                    return Outdated("")
                if job["fingerprint"] != claim.fingerprint:
                    return Outdated(job["schedule"])
                if job["remaining"] > 0:
                    return Early(job["remaining"])
                if claim.slot <= job["pruned_to"]:
                    return Taken("missed")
                if job["refused"]:
                    return Paused(job["paused_by"])
            raise StoreRefused(
                f"the rows of {claim.job!r} disappear as soon as they are made: which program deletes rows of runs?"
            )

        answer: ClaimAnswer = await self._room.use(step, timeout=timeout)
        return answer

    async def pause(self, job: str, *, by: str, timeout: float) -> JobView | None:
        rows = await self._room.fetch(self._sql.pause, job, by, timeout=timeout)
        return _job(rows[0]) if rows else None

    async def resume(self, job: str, *, timeout: float) -> JobView | None:
        rows = await self._room.fetch(self._sql.resume, job, timeout=timeout)
        return _job(rows[0]) if rows else None

    async def beat(
        self, job: str, *, slot: int, run: str, alive_for: float, token: int, timeout: float
    ) -> bool:
        return bool(
            await self._beats.fetch(self._sql.beat, job, slot, run, alive_for, token, timeout=timeout)
        )

    async def finish(self, job: str, *, slot: int, run: str, ending: Ending, timeout: float) -> bool:
        args = (job, slot, run, *_ending(ending))
        rows = await self._room.fetch(self._sql.finish, _ms(timeout), *args, timeout=timeout)
        return bool(rows[0]["ended"])

    async def finish_in(self, conn: Any, job: str, *, slot: int, run: str, ending: Ending) -> bool:
        """As `finish`, in the transaction of `conn`: the outcome is committed with the caller's writes, or not at all.

        Raises `Misuse` without a transaction.
        """
        row = await in_transaction(conn, self._sql.finish_in, job, slot, run, *_ending(ending))
        return bool(row[0])

    async def record(
        self, job: str, *, slots: Sequence[int], outcome: Outcome, error: str, timeout: float
    ) -> int:
        args = (job, list(slots), outcome, error[:LONGEST_ERROR])
        rows = await self._room.fetch(self._sql.record, _ms(timeout), *args, timeout=timeout)
        return int(rows[0]["recorded"])

    async def sweep(self, job: str, *, timeout: float) -> list[RunView]:
        return [
            _run(row) for row in await self._room.fetch(self._sql.sweep, _ms(timeout), job, timeout=timeout)
        ]

    async def retriable(self, job: str, *, attempts: int, limit: int, timeout: float) -> list[RunView]:
        rows = await self._room.fetch(self._sql.retriable, job, attempts, limit, timeout=timeout)
        return [_run(row) for row in rows]

    async def view(self, job: str, *, timeout: float) -> JobView | None:
        rows = await self._room.fetch(self._sql.view, job, timeout=timeout)
        return _job(rows[0]) if rows else None

    async def views(self, prefix: str, *, limit: int, timeout: float) -> list[JobView]:
        return [_job(row) for row in await self._room.fetch(self._sql.views, prefix, limit, timeout=timeout)]

    async def history(
        self,
        job: str,
        *,
        limit: int,
        before: int | None = None,
        outcomes: Sequence[Outcome] = (),
        timeout: float,
    ) -> list[RunView]:
        args: tuple[object, ...] = (job, limit, before)
        if outcomes:
            args, statement = (*args, list(outcomes)), self._sql.of_outcomes
        else:
            statement = self._sql.history
        rows = await self._room.fetch(statement, *args, timeout=timeout)
        return [_run(row) for row in rows]

    async def prune(
        self, job: str, *, keep: int, older_than: float, most: int = MOST_RUNS, timeout: float
    ) -> int:
        pruned = 0
        while True:
            args = (job, keep, older_than, most, AT_ONCE)
            rows = await self._room.fetch(self._sql.prune, _ms(timeout), *args, timeout=timeout)
            pruned += int(rows[0]["pruned"])
            if rows[0]["gone"] < AT_ONCE:
                return pruned

    async def forget(self, job: str, *, timeout: float) -> bool:
        rows = await self._room.fetch(self._sql.forget, _ms(timeout), job, timeout=timeout)
        return bool(rows[0]["forgotten"])

    async def aclose(self) -> None:
        """Nothing to close: the connections belong to the leases, and are closed with them."""


def _schedule(given: Registration) -> tuple[object, ...]:
    return (given.job, given.schedule, given.fingerprint, given.rhythm, given.version, given.seen_for)


def _columns(given: Sequence[Registration]) -> tuple[list[Any], ...]:
    return tuple(map(list, zip(*map(_schedule, given), strict=True)))


def _run_of_json(fields: dict[str, Any]) -> RunView:
    owner = fields.pop("owner")
    return RunView(owner=None if owner is None else Owner(**owner), **fields)


def _ms(seconds: float) -> str:
    return str(max(1, round(seconds * 1000)))


def _ending(ending: Ending) -> tuple[str, str, int, str]:
    if ending.outcome == "running":
        raise ValueError("a run cannot end with the outcome 'running'")
    return ending.outcome, ending.error, ending.token, json.dumps(dict(ending.counters))


def _answer(row: Any) -> ClaimAnswer:
    match row["verdict"]:
        case "claimed" | "again":
            return Claimed(row["attempt"], row["late"], row["last_success_at"], row["last_success_began"])
        case "early":
            return Early(-row["late"])
        case "outdated":
            return Outdated(row["schedule"])
        case "paused":
            return Paused(row["paused_by"])
        case "forgotten":
            return Taken("missed")
    return Taken(row["outcome"])


def _job(row: Any) -> JobView:
    fields = dict(row)
    return JobView(job=fields.pop("name"), running=tuple(fields.pop("running")), **fields)


def _run(row: Any) -> RunView:
    fields = dict(row)
    owner = fields.pop("owner")
    return RunView(
        owner=None if owner is None else Owner(**json.loads(owner)),
        counters=json.loads(fields.pop("counters")),
        **fields,
    )
