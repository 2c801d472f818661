"""One statement in the user's own transaction, through whatever library his connection is of."""

from __future__ import annotations

import re
import sys
from typing import Any

from stampede_guard.errors import Misuse

__all__ = ["in_transaction"]


async def in_transaction(conn: Any, sql: str, *args: object) -> Any:
    """The first row, or None. `sql` has its parameters as `$1`.

    `conn`: an asyncpg connection, a psycopg `AsyncConnection`, a SQLAlchemy `AsyncConnection` or `AsyncSession`; in a
    transaction. Raises `Misuse` for anything else, and where no transaction was begun: what ends with its own statement
    protects nothing. Errors of the connection are raised as they are.
    """
    if hasattr(conn, "fetchrow"):
        if not conn.is_in_transaction():
            raise _outside()
        return await conn.fetchrow(sql, *args)
    named = {f"p{number}": arg for number, arg in enumerate(args, 1)}
    # Of subclasses too, which are in modules of the user's.
    libraries = {base.__module__.partition(".")[0] for base in type(conn).__mro__}
    if "sqlalchemy" in libraries:
        # Not imported here: whoever has such a connection has it. In brackets: `:p1::text` is no parameter to it.
        text = sys.modules["sqlalchemy"].text
        found = await conn.execute(text(re.sub(r"\$(\d+)", r"(:p\1)", sql)), named)
        return found.first()
    if "psycopg" in libraries:
        if conn.autocommit and conn.info.transaction_status == 0:
            raise _outside()
        cursor = await conn.execute(re.sub(r"\$(\d+)", r"%(p\1)s", sql), named)
        return await cursor.fetchone()
    raise Misuse(
        "this needs the connection of your transaction, of asyncpg, psycopg or SQLAlchemy, not "
        f"{type(conn).__name__}"
    )


def _outside() -> Misuse:
    return Misuse(
        "this belongs into a transaction, and none was begun: write `async with conn.transaction():` around what you "
        "write and this"
    )
