"""Leases in PostgreSQL. The database is the truth: each step is one statement on its clock, on whatever connection.

No step depends on a session of the database (no prepared statements, no SET that outlives its statement), so that steps
may go through PgBouncer in transaction mode. What belongs to a session is the sign of life of `listening`, which is not
given through a pooler. Not kept: a grant that is lost because a standby
that has not received it is promoted; use synchronous replication where that must not be.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from stampede_guard.errors import StoreRefused
from stampede_guard.leases.postgres import schema as tables
from stampede_guard.leases.postgres.fencing import verify
from stampede_guard.leases.postgres.forgetting import KEPT_FOR, MOST, TIMEOUT, Forgetting
from stampede_guard.leases.postgres.leaving import Leave, Leaving
from stampede_guard.leases.postgres.listening import Ear
from stampede_guard.leases.postgres.rooms import Connect, Room, connect_to, connect_with
from stampede_guard.leases.postgres.statements import Statements
from stampede_guard.leases.runs.postgres.backend import PostgresRuns
from stampede_guard.leases.words import (
    Answer,
    Ask,
    Audit,
    Forced,
    Granted,
    Held,
    LeaseView,
    NotForced,
    Owner,
    Refused,
    Renewed,
)

__all__ = ["PostgresBackend"]

SCHEMA_PATIENCE = 30.0
_RENEWING = 4
"""Connections for renewals: one is used, unless its row is locked, by a fenced transaction say."""
_ENDING = 2
"""Connections for `release` and `leave`: a storm of cancellations uses one of them."""
_TRIES = 3


class PostgresBackend:
    """A `Backend` and a `Fence` for one event loop; connects when first used.

    `connections`: at most so many for everything but renewals, which have their own. `listen`: a connection that hears
    what was freed; `False` = waiters only ask now and then, which is also what happens behind a pooler; or another
    `Connect` for it, past the pooler. `schema`: of the tables, see `schema.sql`.
    """

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
        self._sql = Statements.of(self._schema)
        self.room = Room(connect, size=connections)
        """Of ordinary statements: jobs use it, too."""
        self._renewals = Room(connect, size=_RENEWING)
        self._endings = Room(connect, size=_ENDING)
        """Of what is given back and given up: it waits for nobody who asks, and nobody who asks for it."""
        self._leaving = Leaving(self._leave_all)
        self._forgetting = Forgetting(lambda: self.prune("", older_than=KEPT_FOR, timeout=TIMEOUT))
        self._freed: list[Callable[[str], None]] = []
        self._called: list[Callable[[str, int], None]] = []
        self._vouched: set[str] = set()
        """Names that were granted to this process, and may be handed over when it is not seen any more."""
        hearing: Connect | None = connect if listen is True else listen or None
        self.ear = (
            Ear(hearing, self._tell_freed, self._tell_called, self._tell_vouched, deadline=deadline)
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

        `listen`: another URL for listening, past a pooler. Raises `UrlError`.
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
        """`await connect()` makes a new connection of asyncpg; `listen`: another one for listening. Raises `Misuse`."""
        ear = listen if isinstance(listen, bool) else connect_with(listen)
        return cls(connect_with(connect), schema=schema, connections=connections, listen=ear)

    async def create_schema(self, *, timeout: float = SCHEMA_PATIENCE) -> None:
        """Create the tables that are missing; any number of processes may do so at once."""
        script = tables.script(self._schema)
        await self.room.use(lambda connection: connection.execute(script), timeout=timeout)

    # --- steps ------------------------------------------------------------------------------------

    async def acquire(self, ask: Ask, *, timeout: float) -> Answer:
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
                f"the row of {ask.name!r} goes as soon as it was made: who deletes rows of leases?"
            )

        row = await self.room.use(step, timeout=timeout)
        if row["verdict"] in ("granted", "again"):
            return Granted(row["token"])
        return Held(
            _owner(row["owner"]),
            row["token"],
            max(0.0, row["remaining"]),
            row["ahead"],
            resting=row["verdict"] == "resting",
        )

    async def renew(
        self, name: str, *, holder: str, token: int, lease_ttl: float, timeout: float
    ) -> Renewed | Refused:
        rows = await self._renewals.fetch(
            self._sql.renew,
            _ms(timeout),
            name,
            holder,
            token,
            lease_ttl,
            self._vouch(name) if name in self._vouched else "",
            timeout=timeout,
        )
        if rows and rows[0]["ours"]:
            return Renewed(rows[0]["asked_to_leave"])
        self._vouched.discard(name)
        return Refused("taken" if rows and rows[0]["held"] else "gone")

    async def release(
        self, name: str, *, holder: str, token: int, at_least_for: float, to: str = "", timeout: float
    ) -> bool:
        self._vouched.discard(name)
        rows = await self._endings.fetch(
            self._sql.release, _ms(timeout), name, holder, token, at_least_for, to, timeout=timeout
        )
        return bool(rows[0]["held"])

    async def leave(self, name: str, *, holder: str, timeout: float) -> None:
        self._vouched.discard(name)
        await self._leaving.leave(name, holder, timeout)

    async def _leave_all(self, leaves: Sequence[Leave], timeout: float) -> None:
        names, holders = [leave.name for leave in leaves], [leave.holder for leave in leaves]
        await self._endings.fetch(self._sql.leave, _ms(timeout), names, holders, timeout=timeout)

    def unsent(self, asking: asyncio.Task[Any]) -> bool:
        """Whether this question still waits for a connection. Then it may be cancelled, and nothing is to be undone."""
        return self.room.unsent(asking)

    def runs(self) -> PostgresRuns:
        """The slots and runs of jobs, in the same schema, through the same connections."""
        return PostgresRuns(self.room, self._renewals, schema=self._schema)

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
        """Within the transaction of `conn`: whether it is held now; and if so, nobody else gets it before the end of
        that transaction. See `leases.postgres.fencing`."""
        return await verify(conn, self._schema, name, holder=holder, token=token)

    # --- looking ----------------------------------------------------------------------------------

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
        """Delete the rows of names that nobody has used for so many seconds, `most` of them; how many.

        Done by itself, see `leases.postgres.forgetting`. Their next tokens are larger all the same, unless the
        database's clock was set back by more than that.
        """
        rows = await self.room.fetch(self._sql.prune, prefix, older_than, most, timeout=timeout)
        return int(rows[0]["pruned"])

    def on_freed(self, call: Callable[[str], None]) -> None:
        self._freed.append(call)
        if self.ear is not None:
            self.ear.start()

    def on_called(self, call: Callable[[str, int], None]) -> None:
        self._called.append(call)
        if self.ear is not None:
            self.ear.start()

    @property
    def hears(self) -> bool:
        return self.ear is not None and self.ear.hearing

    def _tell_freed(self, name: str) -> None:
        for call in tuple(self._freed):
            call(name)

    def _tell_called(self, holder: str, ahead: int) -> None:
        for call in tuple(self._called):
            call(holder, ahead)

    def _vouch(self, name: str) -> str:
        self._vouched.add(name)
        return self.ear.witness if self.ear is not None else ""

    def _tell_vouched(self) -> None:
        """The server may not see this process any more: each holder renews at once, and says what shows it now."""
        for name in tuple(self._vouched):
            self._tell_freed(name)

    # --- the end ----------------------------------------------------------------------------------

    async def aclose(self) -> None:
        await self._forgetting.aclose()
        await self._leaving.aclose()
        rooms: list[Any] = [self.room.aclose(), self._renewals.aclose(), self._endings.aclose()]
        if self.ear is not None:
            rooms.append(self.ear.aclose())
        await asyncio.gather(*rooms)


def _ms(seconds: float) -> str:
    # 0 would mean: wait for ever.
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
