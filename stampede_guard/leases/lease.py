"""A lease as its holder sees it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from stampede_guard.engine.threads.portal import portal
from stampede_guard.errors import LeaseLost, Misuse
from stampede_guard.leases.keeping.keeper import Keeper
from stampede_guard.leases.keeping.signal import Signal
from stampede_guard.leases.messages import Owner
from stampede_guard.options import ALL, takes_options

__all__ = ["Lease", "PlainLease"]


class _Believed:
    """The holder's view without a request, computed from the clock at each access."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    @property
    def name(self) -> str:
        return self._keeper.name

    @property
    def token(self) -> int:
        """Greater than every earlier holder's token. Send it with each write; the target must refuse smaller ones."""
        return self._keeper.token

    @property
    def owner(self) -> Owner:
        return self._keeper.owner

    @property
    def succeeds(self) -> bool:
        """Whether another process held the lease while this one waited. The work until then was that process's."""
        return self._keeper.succeeds

    @property
    def stopping(self) -> Signal:
        """Raised `grace` seconds before belief ends, and when the release was requested. Finish your work then."""
        return self._keeper.stopping

    @property
    def lost(self) -> Signal:
        """Raised when the lease no longer protects the holder. `await lease.lost` returns the reason."""
        return self._keeper.lost

    def remaining(self) -> float:
        """Seconds for which no other process can get the lease. 0 after its loss or release."""
        return self._keeper.remaining()

    def __repr__(self) -> str:
        return f"<lease {self.name} token={self.token} remaining={self.remaining():.1f}>"

    async def _check(self) -> None:
        keeper = self._keeper
        part = keeper.part
        if keeper.remaining() > 0 and await part.carry_out(
            part.backend.check(
                keeper.name,
                holder=keeper.holder,
                token=keeper.token,
                timeout=keeper.timing.request_timeout,
            ),
            name=f"checks {keeper.name}",
        ):
            return
        why = keeper.lost.why or keeper.stopping.why or "the back end no longer has it"
        keeper.disown(why)
        raise LeaseLost(keeper.name, token=keeper.token, why=why)


class Lease(_Believed):
    async def check(self) -> None:
        """Ask the back end. Raises `LeaseLost` if the lease is no longer ours, `StoreError` if that is unknown."""
        await self._check()

    @takes_options("lease.fenced", own=ALL)
    @contextlib.asynccontextmanager
    async def fenced(self, conn: Any) -> AsyncIterator[Any]:
        """A transaction of your own PostgreSQL connection that commits only if the lease is still held.

        The lease is verified in the same transaction just before COMMIT. From then until the end of the transaction,
        no other process can get the lease. Use a `conn` of asyncpg, psycopg (async) or SQLAlchemy (AsyncConnection,
        AsyncSession) to the database of `PostgresLeases`. Raises `LeaseLost`; the transaction is then rolled back.
        Raises `Misuse` with another back end.
        """
        keeper = self._keeper
        fence = getattr(keeper.part.backend, "fence", None)
        if fence is None:
            raise Misuse(
                "lease.fenced(conn) needs the leases in the same database: use PostgresLeases. With another back end, "
                "send lease.token with each write, and refuse smaller tokens where you write"
            )
        async with _transaction(conn):
            yield conn
            held = keeper.remaining() > 0 and await fence(
                conn, keeper.name, holder=keeper.holder, token=keeper.token
            )
            if not held:
                why = keeper.lost.why or "the back end no longer has it"
                raise LeaseLost(keeper.name, token=keeper.token, why=why)


class PlainLease(_Believed):
    """For code without an event loop: check `stopping` regularly, and sleep with `stopping.wait(seconds)`."""

    def check(self) -> None:
        """Ask the back end. Raises `LeaseLost` if the lease is no longer ours, `StoreError` if that is unknown."""
        portal().call(self._check)


def _transaction(conn: Any) -> Any:
    if hasattr(conn, "begin_nested"):
        return conn.begin_nested() if conn.in_transaction() else conn.begin()
    if hasattr(conn, "transaction"):
        return conn.transaction()
    raise Misuse(
        f"lease.fenced() needs a connection that can open a transaction (asyncpg, psycopg, SQLAlchemy), not a "
        f"{type(conn).__name__}"
    )
