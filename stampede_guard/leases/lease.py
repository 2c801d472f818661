"""A lease as its holder sees it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

from stampede_guard.errors import LeaseLost, Misuse
from stampede_guard.leases.keeper import Keeper
from stampede_guard.leases.signal import Signal
from stampede_guard.leases.words import Owner
from stampede_guard.portal import portal

__all__ = ["Lease", "PlainLease"]


class _Believed:
    """What is known without asking anybody, from the clock at each look."""

    def __init__(self, keeper: Keeper) -> None:
        self._keeper = keeper

    @property
    def name(self) -> str:
        return self._keeper.name

    @property
    def token(self) -> int:
        """Greater than that of every holder before. Give it to what you write to, and let it refuse smaller ones."""
        return self._keeper.token

    @property
    def owner(self) -> Owner:
        return self._keeper.owner

    @property
    def succeeds(self) -> bool:
        """Whether somebody else held it while this holder waited for it: what was to be done until then was theirs."""
        return self._keeper.succeeds

    @property
    def stopping(self) -> Signal:
        """Raised `grace` seconds before belief ends, and when the release was asked for: finish."""
        return self._keeper.stopping

    @property
    def lost(self) -> Signal:
        """Raised when nothing protects the holder any more. `await lease.lost` gives the reason."""
        return self._keeper.lost

    def remaining(self) -> float:
        """Seconds for which nobody else can have it, whatever happens now; 0 when it is lost or given back."""
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
        why = keeper.lost.why or keeper.stopping.why or "the back end has it no more"
        keeper.disown(why)
        raise LeaseLost(keeper.name, token=keeper.token, why=why)


class Lease(_Believed):
    async def check(self) -> None:
        """Ask the back end. Raises `LeaseLost` if it is not ours any more, `StoreError` when that cannot be known."""
        await self._check()

    @contextlib.asynccontextmanager
    async def fenced(self, conn: Any) -> AsyncIterator[Any]:
        """A transaction of your own PostgreSQL connection that commits only if the lease is still held.

        Verified in the same transaction just before COMMIT, and from there on nobody else can get the lease until it
        has committed. `conn`: of asyncpg, psycopg (async), or SQLAlchemy (AsyncConnection, AsyncSession); on the
        database of `PostgresLeases`. Raises `LeaseLost`, and nothing was written; `Misuse` with another back end.
        """
        keeper = self._keeper
        fence = getattr(keeper.part.backend, "fence", None)
        if fence is None:
            raise Misuse(
                "lease.fenced(conn) needs the leases in the same database: use PostgresLeases. Elsewhere give "
                "lease.token to what you write to, and let it refuse smaller ones"
            )
        async with _transaction(conn):
            yield conn
            held = keeper.remaining() > 0 and await fence(
                conn, keeper.name, holder=keeper.holder, token=keeper.token
            )
            if not held:
                why = keeper.lost.why or "the back end has it no more"
                raise LeaseLost(keeper.name, token=keeper.token, why=why)


class PlainLease(_Believed):
    """For code without an event loop: look at `stopping` now and then; sleep with `stopping.wait(seconds)`."""

    def check(self) -> None:
        """Ask the back end. Raises `LeaseLost` if it is not ours any more, `StoreError` when that cannot be known."""
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
