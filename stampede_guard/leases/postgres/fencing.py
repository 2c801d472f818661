"""The fence in the user's own transaction: it commits only if the lease is still held at the end.

The fence is `SELECT ... FOR SHARE` of the lease's row, the last statement before COMMIT. If it finds the row with this
holder and token, the row cannot change before the transaction ends. Other acquirers, operators and even the holder's
own renewals wait. So a process whose lease has passed to another cannot commit.

Do nothing slow between the fence and COMMIT, because renewals wait, too. A process that is suspended there would block
the lease. Therefore `idle_in_transaction_session_timeout` is set for this transaction: the server ends the transaction
and its session when the lease ends. The setting is never made longer than it was.

At REPEATABLE READ or SERIALIZABLE, a transaction sees the row as it was at its start. PostgreSQL ends it with a
serialization failure if the row was renewed since. Use READ COMMITTED, the default.
"""

from __future__ import annotations

from typing import Any

from stampede_guard.leases.postgres.external import in_transaction

__all__ = ["verify"]

_SQL = """
WITH held AS MATERIALIZED (
    SELECT deadline FROM {schema}.leases
    WHERE name = $1 AND holder = $2 AND token = $3 AND holder <> '' AND clock_timestamp() < deadline FOR SHARE
)
SELECT set_config('idle_in_transaction_session_timeout', least(
        greatest(1, ceil(extract(epoch FROM deadline - clock_timestamp()) * 1000))::bigint,
        nullif(setting::bigint, 0),
        max_val::bigint
    )::text, true)
FROM held, pg_settings
WHERE pg_settings.name = 'idle_in_transaction_session_timeout' AND clock_timestamp() < deadline"""


async def verify(conn: Any, schema: str, name: str, *, holder: str, token: int) -> bool:
    """Whether the lease is held. For `conn` and the errors see `leases.postgres.external`."""
    return await in_transaction(conn, _SQL.format(schema=schema), name, holder, token) is not None
