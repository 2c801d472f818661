"""Runs one statement in the user's own transaction: on a connection of asyncpg, psycopg or SQLAlchemy."""

from __future__ import annotations

import re
import sys
from typing import Any

from stampede_guard.errors import Misuse

__all__ = ["in_transaction"]


async def in_transaction(conn: Any, sql: str, *args: object) -> Any:
    """The first row, or None. `sql` has its parameters as `$1`.

    `conn`: an asyncpg connection, a psycopg `AsyncConnection`, a SQLAlchemy `AsyncConnection` or `AsyncSession`, in a
    transaction. Raises `Misuse` for any other object. Raises `Misuse` without a transaction: in autocommit the row lock
    would end with the statement and protect nothing. Errors of the connection are raised unchanged.
    """
    if hasattr(conn, "fetchrow"):
        if not conn.is_in_transaction():
            raise _outside()
        return await conn.fetchrow(sql, *args)
    named = {f"p{number}": arg for number, arg in enumerate(args, 1)}
    # Look at all base classes: a subclass may be in a module of the user.
    libraries = {base.__module__.partition(".")[0] for base in type(conn).__mro__}
    if "sqlalchemy" in libraries:
        # Not imported here: if there is such a connection, SQLAlchemy is loaded. The brackets are needed, because
        # SQLAlchemy does not take `:p1::text` as a parameter.
        text = sys.modules["sqlalchemy"].text
        found = await conn.execute(text(re.sub(r"\$(\d+)", r"(:p\1)", sql)), named)
        return found.first()
    if "psycopg" in libraries:
        if conn.autocommit and conn.info.transaction_status == 0:
            raise _outside()
        cursor = await conn.execute(re.sub(r"\$(\d+)", r"%(p\1)s", sql), named)
        return await cursor.fetchone()
    raise Misuse(
        "write the connection of your transaction (asyncpg, psycopg or SQLAlchemy), not "
        f"{type(conn).__name__}"
    )


def _outside() -> Misuse:
    return Misuse(
        "this needs a transaction, and none was begun: write `async with conn.transaction():` around this and your "
        "statements"
    )
