"""The fence in the user's own transaction: what it writes is committed only if the lease was still held at the end.

`SELECT ... FOR SHARE` of the lease's row, as the transaction's last statement before COMMIT. If it finds the row held
under this holder and token, nobody can change the row before the transaction ends: not another acquirer, not an
operator, not even the holder's own renewal. So nothing is committed by somebody whose lease has gone to another.

Between the two nothing slow should happen: renewals wait as well. A transaction at REPEATABLE READ or SERIALIZABLE sees
the row as it was at its beginning, and PostgreSQL ends it with a serialization failure if the row was renewed since;
use READ COMMITTED, the default.
"""

from __future__ import annotations

import sys
from typing import Any

from stampede_guard.errors import Misuse

__all__ = ["verify"]

_SQL = """
SELECT 1 FROM {schema}.leases
WHERE name = {0} AND holder = {1} AND token = {2} AND holder <> '' AND clock_timestamp() < deadline FOR SHARE"""


async def verify(conn: Any, schema: str, name: str, *, holder: str, token: int) -> bool:
    """`conn`: an asyncpg connection, a psycopg `AsyncConnection`, a SQLAlchemy `AsyncConnection` or `AsyncSession`;
    in a transaction.

    Raises `Misuse` for anything else, and where no transaction was begun: a lock that ends with its own statement
    protects nothing. Errors of the connection are raised as they are.
    """
    if hasattr(conn, "fetchrow"):
        if not conn.is_in_transaction():
            raise _outside()
        sql = _SQL.format("$1", "$2", "$3", schema=schema)
        return await conn.fetchrow(sql, name, holder, token) is not None
    module = type(conn).__module__
    if module.startswith("sqlalchemy."):
        return await _with_sqlalchemy(conn, schema, name, holder, token)
    if module.startswith("psycopg."):
        if conn.autocommit and conn.info.transaction_status == 0:
            raise _outside()
        cursor = await conn.execute(_SQL.format("%s", "%s", "%s", schema=schema), (name, holder, token))
        return await cursor.fetchone() is not None
    raise Misuse(
        "a fence needs the connection of your transaction, of asyncpg, psycopg or SQLAlchemy, not "
        f"{type(conn).__name__}"
    )


async def _with_sqlalchemy(conn: Any, schema: str, name: str, holder: str, token: int) -> bool:
    # Not imported here: whoever has such a connection has it.
    sql = sys.modules["sqlalchemy"].text(_SQL.format(":name", ":holder", ":token", schema=schema))
    found = await conn.execute(sql, {"name": name, "holder": holder, "token": token})
    return found.first() is not None


def _outside() -> Misuse:
    return Misuse(
        "a fence protects a transaction, and none was begun: write `async with conn.transaction():` around what you "
        "write and the fence"
    )
