"""Leases in PostgreSQL. Each step is one statement on the database's clock, on any connection.

No step depends on a database session: no prepared statements, and no SET that outlives its statement. So steps may go
through PgBouncer in transaction mode. Only the witness of `listening` belongs to a session; it is not used through a
pooler. Not covered: a standby that has not received a grant is promoted, and the grant is lost. Use synchronous
replication to prevent that.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from stampede_guard.errors import StoreRefused
from stampede_guard.leases.listeners import Listeners
from stampede_guard.leases.messages import (
    Answer,
    Audit,
    Forced,
    LeaseGranted,
    LeaseHeld,
    LeaseRefused,
    LeaseRequest,
    LeaseView,
    NotForced,
    Owner,
    Renewed,
)
from stampede_guard.leases.postgres import schema as tables
from stampede_guard.leases.postgres.connections import Connect, Connections, connect_to, connect_with
from stampede_guard.leases.postgres.fencing import verify
from stampede_guard.leases.postgres.forgetting import KEPT_FOR, MOST, TIMEOUT, Forgetting
from stampede_guard.leases.postgres.leaving import Leave, Leaving
from stampede_guard.leases.postgres.listening import Ear
from stampede_guard.leases.postgres.statements import LeaseStatements

__all__ = ["PostgresBackend"]

SCHEMA_PATIENCE = 30.0
_RENEWING = 4
"""Connections for renewals. One is enough, unless a row is locked, for example by a fenced transaction."""
_ENDING = 2
"""Connections for `release` and `leave`. A burst of cancellations uses only one of them."""
_TRIES = 3


class PostgresBackend:
    """A `Backend` and a `Fence` for one event loop. It connects on first use.

    `connections`: the limit for ordinary statements; renewals and releases have separate connections. `listen`: keep a
    connection that receives notifications. With `False`, waiters only ask from time to time, as they do behind a
    pooler. Or another `Connect` for it that bypasses the pooler. `schema`: of the tables, see `schema.sql`.
    """

    kind = "postgres"

    def __init__(
        self,
        connect: Connect,
        *,
        schema: str = tables.DEFAULT,
        connections: int = 4,
        listen: bool | Connect = True,
        deadline: float = 5.0,
    ) -> None:
        self._schema = tables.checked(schema)
        self._sql = LeaseStatements.of(self._schema)
        self.room = Connections(connect, size=connections)
        """The connections for ordinary statements, also those of jobs."""
        self._renewals = Connections(connect, size=_RENEWING)
        self._endings = Connections(connect, size=_ENDING)
        """The connections for `release` and `leave`. These and acquirers do not wait for each other."""
        self._leaving = Leaving(self._leave_all)
        self._forgetting = Forgetting(lambda: self.prune("", older_than=KEPT_FOR, timeout=TIMEOUT))
        self._listeners = told = Listeners()
        hearing: Connect | None = connect if listen is True else listen or None
        self.ear = (
            Ear(hearing, told.tell_freed, told.tell_called, told.tell_vouched, deadline=deadline)
            if hearing is not None
            else None
        )

    @classmethod
    def from_url(
        cls,
        url: str,
        *,
        schema: str = tables.DEFAULT,
        connections: int = 4,
        listen: bool | str = True,
        **settings: Any,
    ) -> PostgresBackend:
        """`postgresql://user:password@host:port/database`; `settings` as in `asyncpg.connect`.

        `listen`: another URL for listening that bypasses a pooler. Raises `UrlError`.
        """
        ear = connect_to(listen, **settings) if isinstance(listen, str) else listen
        return cls(connect_to(url, **settings), schema=schema, connections=connections, listen=ear)

    @classmethod
    def from_connect(
        cls,
        connect: Connect,
        *,
        schema: str = tables.DEFAULT,
        connections: int = 4,
        listen: bool | Connect = True,
    ) -> PostgresBackend:
        """`await connect()` makes a new asyncpg connection; `listen`: another one for listening. Raises `Misuse`."""
        ear = listen if isinstance(listen, bool) else connect_with(listen, option="listen")
        return cls(connect_with(connect), schema=schema, connections=connections, listen=ear)

    async def create_schema(self, *, timeout: float = SCHEMA_PATIENCE) -> None:
        """Create the missing tables. Any number of processes may do this at once."""
        script = tables.script(self._schema)
        await self.room.use(lambda connection: connection.execute(script), timeout=timeout)

    # --- steps ------------------------------------------------------------------------------------

    async def acquire(self, ask: LeaseRequest, *, timeout: float) -> Answer:
        witness = self._vouch(ask.name) if ask.handed_over else ""
        args = (ask.holder, _text(ask.owner), ask.lease_ttl, ask.place, ask.turn, witness)

        async def step(connection: Any) -> Any:
            for _ in range(_TRIES):
                row = await connection.fetchrow(self._sql.ask, _ms(timeout), ask.name, *args)
                if row["verdict"] != "unknown":
                    return row
                await connection.execute(self._sql.make, ask.name)
                self._forgetting.added()
            raise StoreRefused(
                f"the row of {ask.name!r} is deleted again and again: find the program that deletes rows of leases"
            )

        row = await self.room.use(step, timeout=timeout)
        if row["verdict"] in ("granted", "again"):
            return LeaseGranted(row["token"])
        return LeaseHeld(
            _owner(row["owner"]),
            row["token"],
            max(0.0, row["remaining"]),
            row["ahead"],
            resting=row["verdict"] == "resting",
        )

    async def renew(
        self, name: str, *, holder: str, token: int, lease_ttl: float, timeout: float
    ) -> Renewed | LeaseRefused:
        rows = await self._renewals.fetch(
            self._sql.renew,
            _ms(timeout),
            name,
            holder,
            token,
            lease_ttl,
            self._vouch(name) if name in self._listeners.vouched else "",
            timeout=timeout,
        )
        if rows and rows[0]["ours"]:
            return Renewed(rows[0]["asked_to_leave"])
        self._listeners.vouched.discard(name)
        return LeaseRefused("taken" if rows and rows[0]["held"] else "gone")

    async def release(
        self, name: str, *, holder: str, token: int, at_least_for: float, to: str = "", timeout: float
    ) -> bool:
        self._listeners.vouched.discard(name)
        rows = await self._endings.fetch(
            self._sql.release, _ms(timeout), name, holder, token, at_least_for, to, timeout=timeout
        )
        return bool(rows[0]["held"])

    async def leave(self, name: str, *, holder: str, timeout: float) -> None:
        self._listeners.vouched.discard(name)
        await self._leaving.leave(name, holder, timeout)

    async def _leave_all(self, leaves: Sequence[Leave], timeout: float) -> None:
        names, holders = [leave.name for leave in leaves], [leave.holder for leave in leaves]
        await self._endings.fetch(self._sql.leave, _ms(timeout), names, holders, timeout=timeout)

    def unsent(self, asking: asyncio.Task[Any]) -> bool:
        """Whether this request still waits for a connection. Then it may be cancelled, and there is nothing to undo."""
        return self.room.unsent(asking)

    def for_runs(self) -> tuple[Connections, Connections, str]:
        """For the runs of jobs: connections, those that renewals wait for nobody on, and the schema."""
        return self.room, self._renewals, self._schema

    async def check(self, name: str, *, holder: str, token: int, timeout: float) -> bool:
        rows = await self.room.fetch(self._sql.check, name, holder, token, timeout=timeout)
        return bool(rows[0][0])

    async def force(
        self, name: str, *, token: int, by: str, now: bool, audited: bool = True, timeout: float
    ) -> Forced | NotForced:
        rows = await self.room.fetch(
            self._sql.force, _ms(timeout), name, token, by, now, audited, timeout=timeout
        )
        if not rows:
            return NotForced(0)
        if not rows[0]["matches"]:
            return NotForced(rows[0]["token"])
        return Forced(max(0.0, rows[0]["remaining"]))

    async def fence(self, conn: Any, name: str, *, holder: str, token: int) -> bool:
        """Whether this holder and token have the lease now, checked within the transaction of `conn`.

        If so, no other process gets it before that transaction ends. See `leases.postgres.fencing`."""
        return await verify(conn, self._schema, name, holder=holder, token=token)

    # --- reading ----------------------------------------------------------------------------------

    async def show(self, name: str, *, timeout: float) -> LeaseView | None:
        rows = await self.room.fetch(self._sql.show, name, timeout=timeout)
        return _view(rows[0]) if rows and rows[0]["token"] else None

    async def views(self, prefix: str, *, limit: int, timeout: float) -> list[LeaseView]:
        rows = await self.room.fetch(self._sql.views, prefix, limit, timeout=timeout)
        return [_view(row) for row in rows]

    async def audits(self, prefix: str, *, limit: int, timeout: float) -> list[Audit]:
        rows = await self.room.fetch(self._sql.audits, prefix, limit, timeout=timeout)
        return [
            Audit(
                name=row["name"],
                token=row["token"],
                by=row["by_whom"],
                at=row["at"],
                now=row["overrode"],
                owner=_owner(row["owner"]),
            )
            for row in rows
        ]

    async def prune(self, prefix: str, *, older_than: float, most: int = MOST, timeout: float) -> int:
        """Delete at most `most` rows of names that were unused for `older_than` seconds. Returns how many.

        This also runs automatically, see `leases.postgres.forgetting`. The next tokens of these names are larger than
        the old ones, unless the database's clock was set back by more than `older_than`.
        """
        rows = await self.room.fetch(self._sql.prune, prefix, older_than, most, timeout=timeout)
        return int(rows[0]["pruned"])

    def on_freed(self, call: Callable[[str], None]) -> None:
        self._listeners.freed.append(call)
        if self.ear is not None:
            self.ear.start()

    def on_called(self, call: Callable[[str, int], None]) -> None:
        self._listeners.called.append(call)
        if self.ear is not None:
            self.ear.start()

    @property
    def hears(self) -> bool:
        return self.ear is not None and self.ear.hearing

    def _vouch(self, name: str) -> str:
        self._listeners.vouched.add(name)
        return self.ear.witness if self.ear is not None else ""

    # --- the end ----------------------------------------------------------------------------------

    async def aclose(self) -> None:
        await self._forgetting.aclose()
        await self._leaving.aclose()
        rooms: list[Any] = [self.room.aclose(), self._renewals.aclose(), self._endings.aclose()]
        if self.ear is not None:
            rooms.append(self.ear.aclose())
        await asyncio.gather(*rooms)


def _ms(seconds: float) -> str:
    # 0 would mean no time-out.
    return str(max(1, round(seconds * 1000)))


def _text(owner: Owner) -> str:
    return json.dumps(asdict(owner))


def _owner(text: str) -> Owner:
    found = json.loads(text)
    return Owner(
        process=str(found.get("process", "")),
        pod=str(found.get("pod", "")),
        host=str(found.get("host", "")),
        pid=int(found.get("pid", 0)),
        label=str(found.get("label", "")),
    )


def _view(row: Any) -> LeaseView:
    waiting: Sequence[Any] = json.loads(row["waiting"])
    return LeaseView(
        name=row["name"],
        token=row["token"],
        held=row["held"],
        owner=_owner(row["owner"]) if row["token"] else None,
        granted_at=row["granted_at"] or 0.0,
        renewed_at=row["renewed_at"] or 0.0,
        remaining=max(0.0, row["remaining"]),
        resting=row["resting"],
        asked_to_leave=row["asked_to_leave"],
        waiting=tuple(_owner(json.dumps(owner)) for owner in waiting),
    )
